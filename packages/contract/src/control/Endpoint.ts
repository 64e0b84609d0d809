/**
 * Endpoints and their settings (docs/spec/endpoints.md#endpoint-settings).
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { EndpointId } from "../Ids.ts"
import { MAX_JOB_MILLIS, MAX_START_DELAY_MILLIS, Priority, Retry } from "../jobs/Job.ts"
import { CronExpression, TimeZone } from "./Cron.ts"
import { ModelReference } from "./Model.ts"
import { Placement } from "./Placement.ts"
import { StoredBytes, WaitingJobs } from "./Quota.ts"
import { RateLimit } from "./RateLimit.ts"
import { SecretName } from "./Secret.ts"

/** A volume of a container. */
const ContainerVolume = Schema.Struct({
  /**
   * The absolute path of a folder that the operator allowed (`STINT_ENGINE_VOLUMES`), the name of a volume in `STINT_VOLUMES`, or otherwise the name
   * of one of the engine's volumes.
   */
  source: Schema.String.check(
    Schema.isPattern(/^(?:\/[^\0]*|[A-Za-z0-9][\w.-]*)$/, { message: "Expected an absolute path or the name of a volume" })
  ),
  /** Where it is mounted in the container. Default: `/platform-volume` and `/runpod-volume`. */
  target: Schema.optionalKey(
    Schema.String.check(Schema.isPattern(/^\/[^\0]+$/, { message: "Expected an absolute path in the container" }))
  ),
  /** Default: false. */
  readOnly: Schema.optionalKey(Schema.Boolean)
})

const MOUNT_NEEDED =
  "is only for containers. A process finds the volume's folder, which is writable, in the variable PLATFORM_VOLUME_PATH"

/** A volume of a process: a folder that the operator named (`STINT_VOLUMES`). */
const ProcessVolume = Schema.Struct({
  source: Schema.String.check(
    Schema.isPattern(/^[A-Za-z0-9][\w.-]*$/, { message: "Expected the name of a volume in STINT_VOLUMES, for example shared" })
  ),
  target: Schema.optionalKey(Schema.String.check(Schema.makeFilter(() => `target ${MOUNT_NEEDED}`))),
  readOnly: Schema.optionalKey(Schema.Boolean.check(Schema.makeFilter((isSet) => !isSet || `readOnly ${MOUNT_NEEDED}`)))
})

/** A process has only one variable for the folder of a volume. */
const ProcessVolumes = Schema.Array(ProcessVolume).check(Schema.isMaxLength(1))

/** What one worker may use of its machine, with all its processes. */
const limits = {
  /** The CPU time that a worker may use, in CPUs. Default: no limit. */
  cpus: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0.01, maximum: 4_096 }))),
  /** The memory that a worker may use, in bytes, excluding swap. With a container's `/tmp`. Default: no limit. */
  memoryBytes: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 8 * 1024 ** 2, maximum: 2 ** 50 }))),
  /** The number of processes and threads of a worker. Default: 1,024 in a container, no limit otherwise. */
  pids: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 8, maximum: 1_000_000 }))),
  /** The number of GPUs that a worker receives, or `all`. Default: none are reserved; a process then sees all GPUs, a container none. */
  gpus: Schema.optionalKey(Schema.Union([
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 64 })),
    Schema.Literal("all")
  ]))
}

/**
 * The program that the endpoint's workers run.
 *
 * - `handler`: a TypeScript or JavaScript file that calls `serverless.start`. The platform runs it with Node.
 * - `command`: any program that implements the worker protocol, for example a Python worker.
 *   The limits of these two are enforced where the platform can create control groups (docs/operations/security.md#limits-of-processes).
 * - `container`: an image whose program implements the worker protocol. Docker or Podman runs it on the platform's machine
 *   (docs/operations/containers.md).
 * - `external`: the platform starts no workers. Operators start them with the variables of `stint worker-env`.
 */
export const EndpointSource = Schema.Union([
  Schema.Struct({
    type: Schema.tag("handler"),
    file: Schema.NonEmptyString,
    ...limits,
    volumes: Schema.optionalKey(ProcessVolumes)
  }),
  Schema.Struct({
    type: Schema.tag("command"),
    command: Schema.NonEmptyArray(Schema.NonEmptyString),
    /** The folder of the program's files: relative paths refer to it. Default: the platform's working directory. */
    directory: Schema.optionalKey(Schema.NonEmptyString),
    /**
     * The working directory that all workers share, relative to `directory`. Default: a separate folder for each worker, with links to the entries
     * of `directory`. It is removed with the worker.
     */
    cwd: Schema.optionalKey(Schema.NonEmptyString),
    ...limits,
    volumes: Schema.optionalKey(ProcessVolumes)
  }),
  Schema.Struct({
    type: Schema.tag("container"),
    /** The image's name. A name with a digest (`name@sha256:...`) always means the same image. */
    image: Schema.String.check(
      Schema.isPattern(/^[\w][\w.:/@-]*$/, { message: "Expected the name of an image, for example registry.example.com/llm:1" })
    ),
    /** The arguments of the image's ENTRYPOINT. Default: its CMD. */
    command: Schema.optionalKey(Schema.NonEmptyArray(Schema.String)),
    ...limits,
    volumes: Schema.optionalKey(Schema.Array(ContainerVolume).check(Schema.isMaxLength(50))),
    /** A network of the engine, or `host`. Default: a separate network in which the worker can reach only the platform. */
    network: Schema.optionalKey(
      Schema.String.check(Schema.isPattern(/^[A-Za-z0-9][\w.-]*$/, { message: "Expected the name of a network" }))
    ),
    /** The user of the worker's processes: a name or id, optionally with a group (`1000:1000`). Default: the image's user. */
    user: Schema.optionalKey(
      Schema.String.check(Schema.isPattern(/^[\w.-]+(?::[\w.-]+)?$/, { message: "Expected USER or USER:GROUP" }))
    )
  }),
  Schema.Struct({ type: Schema.tag("external") })
])
export type EndpointSource = typeof EndpointSource.Type

/**
 * When to add workers (docs/spec/endpoints.md#scaling). When an endpoint has no workers, both types start a worker at once for the first
 * waiting job. Neither type starts workers for `lowPriority` jobs.
 */
export const Scaler = Schema.Union([
  Schema.Struct({
    /** Adds workers as long as a job has been waiting for more than `value` seconds. */
    type: Schema.tag("QUEUE_DELAY"),
    value: Schema.Finite.check(Schema.isBetween({ minimum: 0.1, maximum: 3600 }))
  }),
  Schema.Struct({
    /** Runs `ceil((waiting + running) / value)` workers. */
    type: Schema.tag("REQUEST_COUNT"),
    value: Schema.Finite.check(Schema.isBetween({ minimum: 1, maximum: 100_000 }))
  })
])
export type Scaler = typeof Scaler.Type

const withDefault = <S extends Schema.Constraint>(schema: S, value: S["Encoded"]) =>
  Schema.withDecodingDefaultKey<S>(Effect.succeed(value))(schema)

const millis = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** A recurring time during which more workers always run, for example office hours (docs/spec/endpoints.md#warm-times). */
const WarmTime = Schema.Struct({
  /** When it begins. */
  start: CronExpression,
  /** When it ends: at the next occurrence after its start. */
  end: CronExpression,
  /** The time zone of `start` and `end`. Default UTC. */
  timeZone: withDefault(TimeZone, "UTC"),
  /** The number of workers that always run during this time. When several warm times overlap, the largest number applies. */
  min: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000 }))
})

/** The number of workers, and the lifetime of idle workers. */
export const WorkerLimits = Schema.Struct({
  /** The number of workers that always run. Default 0: an idle endpoint costs nothing, but its next job requires a cold start. */
  min: withDefault(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 10_000 })), 0),
  /** The maximum number of workers. Default 3. 0 pauses the endpoint: jobs wait. */
  max: withDefault(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 10_000 })), 3),
  /**
   * How long an idle worker in excess of `min` keeps running, 0 s to 1 h. Default 5 s. A longer time avoids cold starts but uses memory.
   */
  idleTimeoutMs: withDefault(millis(0, 3_600_000), 5_000),
  /** Recurring times with a higher `min`. Default: none. */
  warm: Schema.optionalKey(Schema.Array(WarmTime).check(Schema.isMaxLength(20)))
}).check(
  Schema.makeFilter((limits) => limits.min <= limits.max || "workers.min must not be above workers.max"),
  Schema.makeFilter(({ max, warm = [] }) => {
    const index = warm.findIndex(({ min }) => min > max)
    return index === -1 || { path: ["warm", index, "min"], issue: `must not be above workers.max, which is ${max}` }
  })
)
export type WorkerLimits = typeof WorkerLimits.Type

/**
 * The maxima that callers may request. A request for more is rejected with 400 (docs/spec/endpoints.md#limits-for-callers).
 *
 * When a spec sets `executionTimeoutMs` or `ttlMs` but not its maximum, the value is the maximum too ({@link withImpliedLimits}): an operator who
 * allows 5 s means 5 s. When a spec sets neither, callers may request up to 7 days, as on RunPod.
 */
const CallerLimits = Schema.Struct({
  /** The maximum of `policy.executionTimeout`. */
  executionTimeoutMs: withDefault(millis(5_000, MAX_JOB_MILLIS), MAX_JOB_MILLIS),
  /** The maximum of `policy.ttl`. */
  ttlMs: withDefault(millis(10_000, MAX_JOB_MILLIS), MAX_JOB_MILLIS),
  /** The maximum of `policy.retry.maxAttempts`. Default 100. */
  maxAttempts: withDefault(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })), 100),
  /** The maximum of `priority`. Default 100. */
  priority: withDefault(Priority, 100),
  /** The maximum time from a submission to the job's start time. Default: 30 days, which is the maximum. */
  startDelayMs: withDefault(millis(0, MAX_START_DELAY_MILLIS), MAX_START_DELAY_MILLIS),
  /** The number of open batches of one key. Default: the platform's limit, which applies as well. */
  openBatches: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000 }))),
  /** The number of requests in a batch. Default: the platform's limit, which applies as well. */
  batchRequests: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))),
  /**
   * The number of IN_QUEUE jobs of the endpoint, including those in a backoff or with a later start time. A submission beyond it is rejected
   * with 429. Default: no limit.
   */
  waitingJobs: Schema.optionalKey(WaitingJobs),
  /**
   * The size of the endpoint's stored jobs in bytes: inputs, outputs, errors, streams and log lines, including those of ended jobs until their
   * retention ends. A submission beyond it is rejected with 507; running jobs still store their results. Default: no limit.
   */
  storedBytes: Schema.optionalKey(StoredBytes)
})

/**
 * The shortest lease of an endpoint whose workers may use RunPod's SDK, in milliseconds. That SDK truncates its heartbeat interval, a third of
 * the lease, to seconds, and sends no heartbeats when the result is 0 (docs/spec/worker-protocol.md#heartbeat).
 */
const MIN_FOREIGN_LEASE_MILLIS = 3_000

/** How many jobs with the same key may run at the same time (docs/spec/endpoints.md#concurrency-keys). */
const Concurrency = Schema.Struct({
  /**
   * `input` or `input.PATH`: the value of the input is the job's key, for example `input.customer`. Any other string is the key of all jobs of
   * the endpoint.
   */
  key: Schema.String.check(
    Schema.isPattern(/^(?!input\.?$|input\..*\.$|input\.(?:.*\.)?\.)[^\p{Cc}]{1,200}$|^input$/u, {
      message: "Expected a path such as input.customer, or a string that is the key of all jobs"
    })
  ),
  /** The maximum number of running jobs with the same key. */
  limit: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100_000 }))
})

/** A variable whose value is a secret. An object, because every string is a valid value of a variable. */
const SecretReference = Schema.Struct({ secret: SecretName })

/** The variables of an endpoint's workers: strings, and references to secrets. */
export const WorkerVariables = Schema.Record(Schema.String, Schema.Union([Schema.String, SecretReference]))
export type WorkerVariables = typeof WorkerVariables.Type

/** The variables that refer to secrets, each with the name of its secret. */
export const secretsIn = (env: WorkerVariables): ReadonlyArray<readonly [variable: string, secret: SecretName]> =>
  Object.entries(env).flatMap(([variable, value]) => typeof value === "string" ? [] : [[variable, value.secret] as const])

/** The secrets that an endpoint refers to. */
export const secretNamesOf = ({ env, modelToken }: Pick<EndpointSpec, "env" | "modelToken">): ReadonlyArray<SecretName> => [
  ...secretsIn(env).map(([, secret]) => secret),
  ...(modelToken === undefined ? [] : [modelToken.secret])
]

/** The body of `POST /api/v1/endpoints`. All settings except `id` and `source` have defaults. */
export const EndpointSpec = Schema.Struct({
  id: EndpointId,
  source: EndpointSource,
  workers: withDefault(WorkerLimits, {}),
  scaler: withDefault(Scaler, { type: "QUEUE_DELAY", value: 4 }),
  /** How long one attempt may run before the job is TIMED_OUT. Default 10 min. */
  executionTimeoutMs: withDefault(millis(5_000, MAX_JOB_MILLIS), 600_000),
  /** How long a job may exist, from its submission, before it is TIMED_OUT. Default 1 day. */
  ttlMs: withDefault(millis(10_000, MAX_JOB_MILLIS), 86_400_000),
  /**
   * How long a worker keeps its jobs without sending a heartbeat, from 1 s, or from 3 s unless the source is `handler`. Default 30 s. A
   * shorter lease detects lost workers sooner but requires more heartbeats: workers send three per lease.
   */
  leaseMs: withDefault(millis(1_000, 3_600_000), 30_000),
  /** The number of attempts after which a job whose worker is lost becomes FAILED. Default 2, which existing clients expect. */
  maxAttempts: withDefault(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })), 2),
  /**
   * How failed attempts are retried, unless the submission overrides it. `retry.maxAttempts` takes precedence over `maxAttempts`. Default:
   * a job is retried at once after its worker is lost, and is not retried after an error.
   */
  retry: Schema.optionalKey(Retry),
  /** How long an ended job is stored. Default 1 day; RunPod stores jobs for 1 to 30 minutes (docs/spec/job-lifecycle.md#retention). */
  retentionMs: withDefault(millis(1_000, 30 * 86_400_000), 86_400_000),
  /** `none` hides `error_traceback` from callers (docs/spec/rulings.md#error-on-the-wire). Default `full`. */
  errorTraceback: withDefault(Schema.Literals(["full", "none"]), "full"),
  /** Limits how many jobs with the same key run at a time. Default: no limit. */
  concurrency: Schema.optionalKey(Concurrency),
  /** The maxima that callers may request. */
  limits: withDefault(CallerLimits, {}),
  /**
   * `required`: workers that use the endpoint's shared key must send the lease token of a job with every write
   * (docs/spec/worker-protocol.md#lease-tokens). Default `optional`: required only from workers that announce that they send it, as
   * Stint's SDK does, because other SDKs do not know it.
   */
  leaseToken: withDefault(Schema.Literals(["required", "optional"]), "optional"),
  /** The rate limit for each key, per kind of operation. Default: no limit. A key's own limit applies as well. */
  rateLimit: Schema.optionalKey(RateLimit),
  /**
   * The model that the workers use. The platform downloads it once for all workers on its machine, and starts no worker before the download is
   * complete. The workers receive `HF_HOME`, `HF_HUB_CACHE` and `HF_HUB_OFFLINE=1`, unless `env` sets them. Default: none.
   */
  model: Schema.optionalKey(ModelReference),
  /** The secret that contains the hub's token for `model`. Only the platform uses it. Default: none, which is enough for public models. */
  modelToken: Schema.optionalKey(SecretReference),
  /** Which machines may run the workers (docs/operations/agents.md#choose-machines-by-label). Default: all. */
  placement: Schema.optionalKey(Placement),
  /** Additional environment variables of the workers. A value may be a reference to a secret, which is resolved when a worker starts. */
  env: withDefault(WorkerVariables, {})
}).check(
  Schema.makeFilter(({ leaseMs, source }) =>
    source.type === "handler" || leaseMs >= MIN_FOREIGN_LEASE_MILLIS || {
      path: ["leaseMs"],
      issue:
        `expected at least ${MIN_FOREIGN_LEASE_MILLIS} for the source "${source.type}", got ${leaseMs}: workers send three heartbeats per ` +
        `lease, and RunPod's SDK sends none when that is more than one per second. Use ${MIN_FOREIGN_LEASE_MILLIS} or more`
    }
  ),
  Schema.makeFilter(({ model, modelToken, source }) => {
    if (model === undefined) return modelToken === undefined || { path: ["modelToken"], issue: "needs model" }
    return source.type !== "external" ||
      {
        path: ["model"],
        issue: "the platform does not start the workers of the source \"external\", so it cannot give them a model"
      }
  }),
  Schema.makeFilter(({ placement, source }) =>
    placement === undefined || source.type !== "external" ||
    {
      path: ["placement"],
      issue: "the platform does not start the workers of the source \"external\", so it cannot choose their machines"
    }
  ),
  Schema.makeFilter(({ executionTimeoutMs, limits, ttlMs }) => {
    const low = limits.executionTimeoutMs < executionTimeoutMs ? "executionTimeoutMs" : limits.ttlMs < ttlMs ? "ttlMs" : undefined
    return low === undefined ||
      { path: ["limits", low], issue: `must not be below ${low}, the value for callers who ask for none` }
  })
)
export type EndpointSpec = typeof EndpointSpec.Type

const isSet = (spec: unknown, key: string): boolean => Predicate.hasProperty(spec, key) && spec[key] !== undefined

/** A decoded spec with the maxima that its undecoded form implies. */
export const withImpliedLimits = (undecoded: unknown, spec: EndpointSpec): EndpointSpec => {
  const given = Predicate.hasProperty(undecoded, "limits") ? undecoded.limits : undefined
  const { executionTimeoutMs, ttlMs } = spec
  return {
    ...spec,
    limits: {
      ...spec.limits,
      ...(isSet(undecoded, "executionTimeoutMs") && !isSet(given, "executionTimeoutMs") ? { executionTimeoutMs } : {}),
      ...(isSet(undecoded, "ttlMs") && !isSet(given, "ttlMs") ? { ttlMs } : {})
    }
  }
}

/** An endpoint. */
export const Endpoint = Schema.Struct({
  ...EndpointSpec.fields,
  /** Milliseconds since 1970. */
  createdAt: Schema.Int,
  /** The release that the endpoint runs or is about to run. Absent if its workers always run the current files, as in `stint dev`. */
  release: Schema.optionalKey(Schema.Int),
  /** The release that serves until the first worker of `release` is ready. Absent when no rollout is in progress. */
  previousRelease: Schema.optionalKey(Schema.Int),
  /** The release that runs a part of the jobs, and that part in percent. Absent without a canary. */
  canary: Schema.optionalKey(Schema.Struct({ release: Schema.Int, percent: Schema.Int }))
})
export type Endpoint = typeof Endpoint.Type

/** An endpoint whose variables contain the values of its secrets, for the start of a worker. Must not be stored or logged. */
export type ResolvedEndpoint = Omit<Endpoint, "env"> & { readonly env: Readonly<Record<string, string>> }

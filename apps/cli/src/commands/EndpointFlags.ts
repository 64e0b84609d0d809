/**
 * The flags for the settings of an endpoint, shared by `endpoints create` and `endpoints update`.
 */
import type { EndpointSpec } from "@stint/contract/Endpoint"
import { SecretName } from "@stint/contract/Secret"
import { CliError, Flag } from "effect/cli"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CliFailure } from "../CliFailure.ts"
import type { SourceDefinition } from "../config/EndpointDefinition.ts"
import { duration, labels, size, toMillis } from "./SharedFlags.ts"
import { splitWords } from "./ShellWords.ts"

const isSecretName = Schema.is(SecretName)

const decodeJson = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Json))

/** Flags for the program that the workers run. */
export const sourceFlags = {
  handler: Flag.String("handler").pipe(Flag.withDescription("A file that calls serverless.start"), Flag.optional),
  command: Flag.String("command").pipe(
    Flag.withDescription(
      "A program that implements the worker protocol, with its arguments; with --image, the arguments of its entry point"
    ),
    Flag.optional
  ),
  cwd: Flag.String("cwd").pipe(
    Flag.withDescription("The working directory that all workers of --command share; by default, each has its own folder"),
    Flag.optional
  ),
  image: Flag.String("image").pipe(
    Flag.withDescription("A container image whose program implements the worker protocol"),
    Flag.optional
  ),
  cpus: Flag.Finite("cpus").pipe(Flag.withDescription("CPUs of a worker, e.g. 1.5"), Flag.optional),
  memory: Flag.String("memory").pipe(Flag.withDescription("Memory of a worker, e.g. 8GiB"), Flag.optional),
  pids: Flag.Int("pids").pipe(Flag.withDescription("Processes and threads of a worker"), Flag.optional),
  gpus: Flag.String("gpus").pipe(
    Flag.withDescription("GPUs that a worker gets for itself, e.g. 1, or all"),
    Flag.withSchema(Schema.Union([Schema.Literal("all"), Schema.FiniteFromString])),
    Flag.optional
  ),
  volume: Flag.String("volume").pipe(
    Flag.withDescription("The name of a volume; with --image also SOURCE:TARGET or SOURCE:TARGET:ro, and a folder; repeatable"),
    Flag.atLeast(0)
  ),
  network: Flag.String("network").pipe(
    Flag.withDescription("With --image: a network of the engine, or host; by default, a worker reaches only the platform"),
    Flag.optional
  ),
  user: Flag.String("user").pipe(
    Flag.withDescription("With --image: the user of a worker's processes, e.g. 1000:1000"),
    Flag.optional
  ),
  external: Flag.Boolean("external").pipe(
    Flag.withDescription("Workers are started elsewhere (see worker-env)"),
    Flag.withDefault(false)
  )
}

/** Flags for everything else. */
export const settingFlags = {
  workersMin: Flag.Int("workers-min").pipe(Flag.withDescription("Workers that are always running"), Flag.optional),
  workersMax: Flag.Int("workers-max").pipe(
    Flag.withDescription("Maximum number of workers; 0 pauses the endpoint"),
    Flag.optional
  ),
  idleTimeout: duration("idle-timeout").pipe(
    Flag.withDescription("How long an idle worker keeps running, e.g. 5s"),
    Flag.optional
  ),
  warm: Flag.String("warm").pipe(
    Flag.withDescription(
      "A recurring time with more workers, as JSON: '{\"min\":2,\"start\":\"0 8 * * 1-5\",\"end\":\"0 18 * * 1-5\"}'; repeatable"
    ),
    Flag.mapEffect((text) =>
      Effect.mapError(
        decodeJson(text),
        () => new CliError.InvalidValue({ option: "warm", value: text, expected: "a JSON object", kind: "flag" })
      )
    ),
    Flag.atLeast(0)
  ),
  scaleAfter: duration("scale-after").pipe(
    Flag.withDescription("Add workers while a job has waited longer than this, e.g. 4s"),
    Flag.optional
  ),
  jobsPerWorker: Flag.Finite("jobs-per-worker").pipe(
    Flag.withDescription("Instead of --scale-after: one worker for every N jobs"),
    Flag.optional
  ),
  executionTimeout: duration("execution-timeout").pipe(
    Flag.withDescription("How long one attempt may run, e.g. 10m"),
    Flag.optional
  ),
  ttl: duration("ttl").pipe(Flag.withDescription("How long a job may exist, including waits, e.g. 1d"), Flag.optional),
  lease: duration("lease").pipe(
    Flag.withDescription("How long a worker keeps its jobs without a heartbeat, e.g. 30s"),
    Flag.optional
  ),
  retention: duration("retention").pipe(Flag.withDescription("How long ended jobs are stored, e.g. 1d"), Flag.optional),
  maxAttempts: Flag.Int("max-attempts").pipe(
    Flag.withDescription("Attempts of a job whose worker is lost, 1 to 100"),
    Flag.optional
  ),
  retryAttempts: Flag.Int("retry-attempts").pipe(
    Flag.withDescription("Attempts of a job that is retried; takes precedence over --max-attempts"),
    Flag.optional
  ),
  retryErrors: Flag.Boolean("retry-errors").pipe(
    Flag.withDescription("Also retry after an error of the handler; --no-retry-errors turns it off"),
    Flag.optional
  ),
  backoff: duration("backoff").pipe(Flag.withDescription("Wait before the second attempt, e.g. 10s"), Flag.optional),
  backoffFactor: Flag.Finite("backoff-factor").pipe(
    Flag.withDescription("Factor by which each further wait grows, 1 to 10; default 2"),
    Flag.optional
  ),
  backoffMax: duration("backoff-max").pipe(Flag.withDescription("Longest wait; default 1h"), Flag.optional),
  concurrencyKey: Flag.String("concurrency-key").pipe(
    Flag.withDescription("With --concurrency-limit: input.PATH, or one key for all jobs"),
    Flag.optional
  ),
  concurrencyLimit: Flag.Int("concurrency-limit").pipe(
    Flag.withDescription("Jobs with the same key that may run at the same time"),
    Flag.optional
  ),
  errorTraceback: Flag.Literals("error-traceback", ["full", "none"]).pipe(
    Flag.withDescription("none hides tracebacks from callers"),
    Flag.optional
  ),
  leaseToken: Flag.Literals("lease-token", ["required", "optional"]).pipe(
    Flag.withDescription("required: workers that share the endpoint's key must send the lease token of a job"),
    Flag.optional
  ),
  rateLimit: Flag.Int("rate-limit").pipe(
    Flag.withDescription("Calls of a key in --rate-per, for each kind of operation"),
    Flag.optional
  ),
  ratePer: duration("rate-per").pipe(
    Flag.withDescription("The window of --rate-limit; default 10s"),
    Flag.withDefault(Duration.seconds(10))
  ),
  rateConcurrent: Flag.Int("rate-concurrent").pipe(
    Flag.withDescription("With --rate-limit: concurrent calls of a key, for each kind of operation"),
    Flag.optional
  ),
  limitTimeout: duration("limit-timeout").pipe(
    Flag.withDescription("The longest execution timeout that callers may request"),
    Flag.optional
  ),
  limitTtl: duration("limit-ttl").pipe(Flag.withDescription("The longest ttl that callers may request"), Flag.optional),
  limitAttempts: Flag.Int("limit-attempts").pipe(
    Flag.withDescription("The maximum number of attempts that callers may request"),
    Flag.optional
  ),
  limitPriority: Flag.Int("limit-priority").pipe(
    Flag.withDescription("The highest priority that callers may request"),
    Flag.optional
  ),
  limitStartDelay: duration("limit-start-delay").pipe(
    Flag.withDescription("How far ahead a start time may be, e.g. 7d"),
    Flag.optional
  ),
  limitOpenBatches: Flag.Int("limit-open-batches").pipe(
    Flag.withDescription("Maximum number of a key's batches that have not ended"),
    Flag.optional
  ),
  limitBatchRequests: Flag.Int("limit-batch-requests").pipe(
    Flag.withDescription("Maximum number of requests in a batch"),
    Flag.optional
  ),
  limitWaitingJobs: Flag.Int("limit-waiting-jobs").pipe(
    Flag.withDescription("Maximum number of waiting jobs of the endpoint; further submissions get 429"),
    Flag.optional
  ),
  limitStoredBytes: size("limit-stored-bytes").pipe(
    Flag.withDescription("Maximum size of the endpoint's stored jobs, e.g. 5GB; further submissions get 507"),
    Flag.optional
  ),
  model: Flag.String("model").pipe(
    Flag.withDescription("A model that the platform downloads once for all workers: OWNER/NAME or OWNER/NAME@REVISION"),
    Flag.optional
  ),
  modelToken: Flag.String("model-token").pipe(
    Flag.withDescription("With --model: the secret that contains the hub's token (see stint secrets)"),
    Flag.optional
  ),
  placementLabels: labels(
    "placement-label",
    "A label that the workers' machines must have: NAME=VALUE; repeatable, replaces all of them"
  ),
  env: Flag.String("env").pipe(
    Flag.withDescription("A variable for the workers: NAME=VALUE, or NAME for the value in this shell; repeatable"),
    Flag.atLeast(0)
  ),
  secret: Flag.String("secret").pipe(
    Flag.withDescription("A variable whose value is a secret (see stint secrets): NAME=SECRET; repeatable"),
    Flag.atLeast(0)
  )
}

type Flags<Config> = { readonly [Name in keyof Config]: Config[Name] extends Flag.Flag<infer A> ? A : never }

/** Keeps the members that are set. */
const given = <A>(name: string, value: Option.Option<A>): Readonly<Record<string, A>> =>
  Option.isSome(value) ? { [name]: value.value } : {}

/** The variables that `--env` and `--secret` flags set. */
const variablesOf = Effect.fnUntraced(function*({ env, secret }: Pick<Flags<typeof settingFlags>, "env" | "secret">) {
  const variables: Record<string, EndpointSpec["env"][string]> = {}
  for (const flag of env) {
    const at = flag.indexOf("=")
    const name = at === -1 ? flag : flag.slice(0, at)
    const value = at === -1
      ? yield* Config.option(Config.String(name)).pipe(Effect.orElseSucceed(() => Option.none<string>()))
      : Option.some(flag.slice(at + 1))
    if (Option.isNone(value)) {
      return yield* new CliFailure({
        message: `--env ${name}: this shell has no variable ${name}.`,
        hint: `Set the variable, or give its value: --env ${name}=VALUE`
      })
    }
    variables[name] = value.value
  }
  for (const flag of secret) {
    const at = flag.indexOf("=")
    const [name, of] = [flag.slice(0, at), flag.slice(at + 1)]
    if (at < 1 || !isSecretName(of)) {
      return yield* new CliFailure({
        message: `--secret ${flag}: expected the name of a variable and the name of a secret.`,
        hint: "For example: --secret HF_TOKEN=hf-token, after `stint secrets set hf-token`.",
        code: "usage"
      })
    }
    if (name in variables) {
      return yield* new CliFailure({
        message: `The variable ${name} is given twice, with --env or --secret.`,
        hint: "Keep one of them.",
        code: "usage"
      })
    }
    variables[name] = { secret: of }
  }
  return variables
})

/** The volume that a `--volume` flag describes. */
const volumeOf = (text: string) => {
  const [source = "", target, mode] = text.split(":")
  return { source, ...(target === undefined ? {} : { target }), ...(mode === "ro" ? { readOnly: true } : {}) }
}

/** The source that these flags describe, in the form that a configuration file uses; undefined if they describe none. */
export const sourceOf = Effect.fnUntraced(function*(flags: Flags<typeof sourceFlags>) {
  const words = Option.map(flags.command, splitWords)
  const [program, ...rest] = Option.getOrElse(words, (): ReadonlyArray<string> => [])
  if (Option.isSome(flags.command) && program === undefined) {
    return yield* new CliFailure({ message: "The command is empty.", hint: "For example: --command \"python3 handler.py\"" })
  }
  const definition: SourceDefinition = {
    ...(Option.isSome(flags.handler) ? { handler: flags.handler.value } : {}),
    ...(program === undefined ? {} : { command: [program, ...rest] }),
    ...(Option.isSome(flags.cwd) ? { cwd: flags.cwd.value } : {}),
    ...given("image", flags.image),
    ...given("cpus", flags.cpus),
    ...given("memory", flags.memory),
    ...given("pids", flags.pids),
    ...given("gpus", flags.gpus),
    ...(flags.volume.length === 0 ? {} : { volumes: flags.volume.map(volumeOf) }),
    ...given("network", flags.network),
    ...given("user", flags.user),
    ...(flags.external ? { external: true } : {})
  }
  return Object.keys(definition).length === 0 ? undefined : definition
})

const scalerOf = ({ jobsPerWorker, scaleAfter }: Flags<typeof settingFlags>) => {
  if (Option.isSome(scaleAfter) && Option.isSome(jobsPerWorker)) {
    return Effect.fail(new CliFailure({ message: "Give --scale-after or --jobs-per-worker, not both.", hint: "" }))
  }
  const after = Option.map(scaleAfter, (after) => ({ type: "QUEUE_DELAY", value: Duration.toSeconds(after) }))
  const perWorker = Option.map(jobsPerWorker, (value) => ({ type: "REQUEST_COUNT", value }))
  return Effect.succeed(given("scaler", Option.orElse(after, () => perWorker)))
}

const rateLimitOf = ({ rateConcurrent, rateLimit, ratePer }: Flags<typeof settingFlags>) => {
  if (Option.isSome(rateLimit)) {
    const limit = { limit: rateLimit.value, perMs: toMillis(ratePer), ...given("concurrent", rateConcurrent) }
    return Effect.succeed({ rateLimit: limit })
  }
  return Option.isNone(rateConcurrent)
    ? Effect.succeed({})
    : Effect.fail(
      new CliFailure({
        message: "--rate-concurrent needs --rate-limit.",
        hint: "For example: --rate-limit 1000 --rate-per 10s --rate-concurrent 200"
      })
    )
}

/** `--concurrency-key` alone has no meaning; `--concurrency-limit` alone limits all jobs of the endpoint together. */
const concurrencyOf = ({ concurrencyKey, concurrencyLimit }: Flags<typeof settingFlags>) => {
  if (Option.isSome(concurrencyLimit)) {
    return Effect.succeed({
      concurrency: { key: Option.getOrElse(concurrencyKey, () => "all jobs"), limit: concurrencyLimit.value }
    })
  }
  return Option.isNone(concurrencyKey)
    ? Effect.succeed({})
    : Effect.fail(
      new CliFailure({
        message: "--concurrency-key needs --concurrency-limit.",
        hint: "For example: --concurrency-key input.customer --concurrency-limit 3",
        code: "usage"
      })
    )
}

/** The settings that the flags set, in the undecoded form of an `EndpointSpec`. The groups are separate, because a change merges them. */
export interface Settings {
  readonly plain: Readonly<Record<string, unknown>>
  readonly workers: Readonly<Record<string, unknown>>
  readonly limits: Readonly<Record<string, number>>
  readonly retry: Readonly<Record<string, unknown>>
  readonly backoff: Readonly<Record<string, number>>
  readonly env: EndpointSpec["env"]
}

/** The settings that these flags name. */
export const settingsOf = Effect.fnUntraced(function*(flags: Flags<typeof settingFlags>): Effect.fn.Return<Settings, CliFailure> {
  const millis = (name: string, value: Option.Option<Duration.Duration>) => given(name, Option.map(value, toMillis))
  return {
    plain: {
      ...(yield* scalerOf(flags)),
      ...millis("executionTimeoutMs", flags.executionTimeout),
      ...millis("ttlMs", flags.ttl),
      ...millis("leaseMs", flags.lease),
      ...millis("retentionMs", flags.retention),
      ...given("maxAttempts", flags.maxAttempts),
      ...given("errorTraceback", flags.errorTraceback),
      ...given("leaseToken", flags.leaseToken),
      ...given("model", flags.model),
      ...given("modelToken", Option.map(flags.modelToken, (secret) => ({ secret }))),
      ...(Object.keys(flags.placementLabels).length === 0 ? {} : { placement: { labels: flags.placementLabels } }),
      ...(yield* rateLimitOf(flags)),
      ...(yield* concurrencyOf(flags))
    },
    workers: {
      ...given("min", flags.workersMin),
      ...given("max", flags.workersMax),
      ...millis("idleTimeoutMs", flags.idleTimeout),
      ...(flags.warm.length === 0 ? {} : { warm: flags.warm })
    },
    limits: {
      ...millis("executionTimeoutMs", flags.limitTimeout),
      ...millis("ttlMs", flags.limitTtl),
      ...given("maxAttempts", flags.limitAttempts),
      ...given("priority", flags.limitPriority),
      ...millis("startDelayMs", flags.limitStartDelay),
      ...given("openBatches", flags.limitOpenBatches),
      ...given("batchRequests", flags.limitBatchRequests),
      ...given("waitingJobs", flags.limitWaitingJobs),
      ...given("storedBytes", flags.limitStoredBytes)
    },
    retry: { ...given("maxAttempts", flags.retryAttempts), ...given("onError", flags.retryErrors) },
    backoff: {
      ...millis("initialMs", flags.backoff),
      ...given("factor", flags.backoffFactor),
      ...millis("maxMs", flags.backoffMax)
    },
    env: yield* variablesOf(flags)
  }
})

const isEmpty = (value: object): boolean => Object.keys(value).length === 0

/** Whether the flags name no setting. */
export const isNone = (settings: Settings): boolean => Object.values(settings).every(isEmpty)

const group = (name: string, now: object, changes: object): object => isEmpty(changes) ? {} : { [name]: { ...now, ...changes } }

/** The members of a spec that these settings set, merged with the endpoint's current members. */
export const specOf = (
  { backoff, env, limits, plain, retry, workers }: Settings,
  now: Pick<EndpointSpec, "workers" | "limits" | "env" | "retry"> | undefined
): object => ({
  ...plain,
  ...group("workers", now?.workers ?? {}, workers),
  ...group("limits", now?.limits ?? {}, limits),
  ...group("retry", now?.retry ?? {}, { ...retry, ...group("backoff", now?.retry?.backoff ?? {}, backoff) }),
  ...group("env", now?.env ?? {}, env)
})

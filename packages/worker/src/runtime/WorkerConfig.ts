/**
 * Reads the settings of a worker from its environment (docs/spec/environment.md#set-by-the-platform,
 * docs/spec/worker-protocol.md#addresses).
 *
 * Each variable has the prefix `PLATFORM_` or, when that is unset or empty, `RUNPOD_` (docs/spec/rulings.md#prefix). Without
 * `WEBHOOK_GET_JOB`, or with `--test_input` or `--rp_serve_api`, the process is in local test mode
 * (docs/spec/local-test-mode.md#detection); `WorkerFlags` describes its flags.
 *
 * | variable | default | meaning |
 * |---|---|---|
 * | `WEBHOOK_GET_JOB` | local test mode | address of job-take; job-take-batch and job-stop are derived from it |
 * | `WEBHOOK_POST_OUTPUT` | required on a platform | address of job-done |
 * | `WEBHOOK_POST_STREAM` | derived from `WEBHOOK_POST_OUTPUT` | address of job-stream |
 * | `WEBHOOK_PING` | no heartbeat | address of the heartbeat |
 * | `PING_INTERVAL` | 10000 | milliseconds between heartbeats. A shorter interval detects a dead worker sooner but sends more requests |
 * | `AI_API_KEY` | no `Authorization` header | the worker's key, sent unchanged |
 * | `POD_ID` | a random UUID | id of the worker |
 * | `POD_HOSTNAME` | the machine's name | reported with exceptions |
 * | `ENDPOINT_ID` | none | id of the endpoint; its presence makes log lines JSON |
 * | `SHUTDOWN_GRACE` | none | milliseconds that running jobs have to finish after SIGTERM; Stint only, see below |
 * | `UNREACHABLE_LIMIT` | none | milliseconds without a response to job-take after which the worker shuts down; Stint only, see below |
 * | `SETUP_TIMEOUT` | the setup's own, or 7 minutes | milliseconds that the setup may take; Stint only, see below |
 * | `LOG_LEVEL`, `DEBUG_LEVEL` | DEBUG | the lowest level that is logged |
 *
 * Without `SHUTDOWN_GRACE`, running jobs run to completion, because the sender of the signal decides when to kill the process. Set it to
 * slightly less than the time after which the sender does so: interrupted jobs then return to the queue at once instead of when their leases expire.
 *
 * Without `UNREACHABLE_LIMIT`, a worker retries for as long as the platform is down, which suits a supervised worker. The process pool sets
 * one hour, so that the workers of a killed platform do not run forever.
 *
 * `SETUP_TIMEOUT` overrides the limit in the code, because the machine decides how long a model loads. A shorter one reports a hung setup to waiting
 * jobs sooner.
 */
import { ENV_PREFIXES, WorkerVariable } from "@stint/contract/WorkerProtocol"
import type { EnvPrefix } from "@stint/contract/WorkerProtocol"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { hostname } from "node:os"
import * as LogLine from "./LogLine.ts"
import { didYouMean } from "./Suggestion.ts"
import { VERSION } from "./Version.ts"
import * as WorkerFlags from "./WorkerFlags.ts"

/** The variables for tuning, without their prefix. The variables that the platform sets are defined in the contract. */
const TuningVariable = {
  shutdownGrace: "SHUTDOWN_GRACE",
  unreachableLimit: "UNREACHABLE_LIMIT",
  setupTimeout: "SETUP_TIMEOUT",
  logLevel: "LOG_LEVEL",
  debugLevel: "DEBUG_LEVEL"
} as const

const NAMES = [...Object.values(WorkerVariable), ...Object.values(TuningVariable)]

/** A missing or invalid variable. The message names it, its value, and the valid values. */
export class WorkerConfigError extends Schema.TaggedError<WorkerConfigError>()("WorkerConfigError", {
  variable: Schema.String,
  message: Schema.String
}) {}

/** The identity of this worker, for the report of an exception (docs/spec/handler.md#exceptions). */
export interface Identity {
  readonly workerId: string
  readonly hostname: string
  readonly version: string
}

/** Where and how often to send heartbeats. */
export interface PingConfig {
  readonly url: string
  /** Milliseconds. */
  readonly interval: number
  /**
   * The form of the heartbeat (docs/spec/worker-protocol.md#heartbeat). `json`: a POST. `query`: a GET, used when the variable has the
   * prefix `RUNPOD_`.
   */
  readonly form: "json" | "query"
}

/** An address, split where the job's id belongs. Joining the parts with the id produces the complete address. */
export type JobAddress = ReadonlyArray<string>

/** How to reach the platform. `&key=value` can be appended to each address. */
export interface Platform {
  /** The prefix of the variable with the address of job-take. It identifies which of the two platforms this is. */
  readonly prefix: EnvPrefix
  readonly take: string
  /** Undefined when the take address does not contain `/job-take/`: the platform then has no batch take. */
  readonly takeBatch: string | undefined
  /** Undefined when the take address does not contain `/job-take/`: jobs then cannot be stopped. */
  readonly stop: string | undefined
  /** Absent on platforms other than Stint, which accept one result in a request. */
  readonly doneBatch?: string
  /** Absent on platforms other than Stint: pipelines cannot run there. */
  readonly runJournal?: string
  /** Absent on platforms other than Stint, which do not know the schemas of handlers. */
  readonly handlerSchema?: string
  readonly done: JobAddress
  readonly stream: JobAddress
  readonly ping: PingConfig | undefined
  readonly key: Redacted.Redacted | undefined
}

/** All settings of a worker, validated. */
export interface Settings {
  readonly identity: Identity
  readonly endpoint: string | undefined
  /** Undefined: local test mode. */
  readonly platform: Platform | undefined
  /** Milliseconds that running jobs have to finish after the shutdown request. Undefined: no limit. */
  readonly shutdownGrace: number | undefined
  /** Milliseconds without a response to job-take after which the worker shuts down. Undefined: never. */
  readonly unreachableLimit: number | undefined
  /** Milliseconds that the setup may take, instead of the limit in the code. */
  readonly setupTimeout?: number
  readonly log: LogLine.Style
  readonly flags: WorkerFlags.WorkerFlags
}

/** This worker's settings. */
export class WorkerConfig extends Context.Service<WorkerConfig, Settings>()("@stint/worker/WorkerConfig") {}

interface Variable {
  readonly name: string
  readonly prefix: EnvPrefix
  readonly value: string
}

/** Variables by full name, as in `process.env`. */
export type Environment = { readonly [name: string]: string | undefined }

const find = (env: Environment, name: string): Variable | undefined => {
  for (const prefix of ENV_PREFIXES) {
    const value = env[prefix + name]
    if (value !== undefined && value.trim() !== "") return { name: prefix + name, prefix, value: value.trim() }
  }
  return undefined
}

/**
 * The log format and level for these variables and this command line, for code outside the runtime. Invalid values count as unset.
 */
export const logStyle = (env: Environment, argv: ReadonlyArray<string>): LogLine.Style => ({
  level: LogLine.parseLevel(
    WorkerFlags.valueOf(argv, "--rp_log_level") ??
      (find(env, TuningVariable.logLevel) ?? find(env, TuningVariable.debugLevel))?.value ?? ""
  ) ?? "DEBUG",
  json: find(env, WorkerVariable.endpointId) !== undefined
})

/**
 * Whether a process with these variables and this command line is in local test mode (docs/spec/local-test-mode.md#detection,
 * docs/spec/worker-protocol.md#addresses).
 */
export const isLocal = (env: Environment, argv: ReadonlyArray<string>): boolean =>
  find(env, WorkerVariable.getJob) === undefined || WorkerFlags.requestsLocalMode(argv)

const invalid = (variable: string, message: string) => new WorkerConfigError({ variable, message })

/**
 * Completes an address so that `&key=value` can be appended, because some templates have no query string
 * (docs/spec/worker-protocol.md#addresses).
 */
const withQuery = (url: string): string => url.includes("?") ? url : `${url}?`

/** Appends a query parameter to an address of {@link Platform}. */
export const appendQuery = (url: string, key: string, value: string | number): string =>
  `${url}${url.endsWith("?") || url.endsWith("&") ? "" : "&"}${key}=${encodeURIComponent(value)}`

const WORKER_PLACEHOLDER = /\$\{?(?:RUNPOD|PLATFORM)_POD_ID\}?/g

const checkedUrl = (variable: Variable): Result.Result<string, WorkerConfigError> => {
  const url = URL.canParse(variable.value) ? new URL(variable.value) : undefined
  return url !== undefined && (url.protocol === "http:" || url.protocol === "https:")
    ? Result.succeed(withQuery(variable.value))
    : Result.fail(invalid(
      variable.name,
      `${variable.name} is ${JSON.stringify(variable.value)}, which is not an http or https address.`
    ))
}

const jobAddress = (variable: Variable, workerId: string): Result.Result<JobAddress, WorkerConfigError> =>
  Result.flatMap(checkedUrl(variable), (url) => {
    const parts = url.replaceAll(WORKER_PLACEHOLDER, encodeURIComponent(workerId)).split("$ID")
    return parts.length > 1 ? Result.succeed(parts) : Result.fail(invalid(
      variable.name,
      `${variable.name} is ${JSON.stringify(variable.value)}; it must contain $ID, where the job's id belongs.`
    ))
  })

const wholeNumber = (variable: Variable, minimum: number): Result.Result<number, WorkerConfigError> =>
  /^\d+$/.test(variable.value) && Number(variable.value) >= minimum && Number.isSafeInteger(Number(variable.value))
    ? Result.succeed(Number(variable.value))
    : Result.fail(invalid(
      variable.name,
      `${variable.name} is ${JSON.stringify(variable.value)}; it must be a whole number of milliseconds, ${minimum} or more.`
    ))

const platformOf = Effect.fnUntraced(function*(env: Environment, workerId: string) {
  const getJob = find(env, WorkerVariable.getJob)
  if (getJob === undefined) return undefined
  const postOutput = find(env, WorkerVariable.postOutput)
  if (postOutput === undefined) {
    return yield* invalid(
      getJob.prefix + WorkerVariable.postOutput,
      `${getJob.name} is set, so this is a worker on a platform, but ${getJob.prefix}${WorkerVariable.postOutput} is not: ` +
        `the worker has no address to deliver results to. Set it (\`stint worker-env <endpoint>\` prints all of them), or unset ` +
        `${getJob.name} for local test mode.`
    )
  }
  const postStream = find(env, WorkerVariable.postStream) ??
    { ...postOutput, value: postOutput.value.replace("/job-done/", "/job-stream/") }
  const ping = find(env, WorkerVariable.ping)
  const pingInterval = find(env, WorkerVariable.pingInterval)
  const key = find(env, WorkerVariable.apiKey)
  const take = (yield* Effect.fromResult(checkedUrl(getJob)))
    .replaceAll(WORKER_PLACEHOLDER, encodeURIComponent(workerId))
    .replaceAll("$ID", encodeURIComponent(workerId))
  const named = take.includes("/job-take/")
  const platform: Platform = {
    prefix: getJob.prefix,
    take,
    takeBatch: named ? take.replace("/job-take/", "/job-take-batch/") : undefined,
    stop: named ? take.replace("/job-take/", "/job-stop/") : undefined,
    ...(named && getJob.prefix === "PLATFORM_"
      ? {
        doneBatch: take.replace("/job-take/", "/job-done-batch/"),
        runJournal: take.replace("/job-take/", "/run-journal/"),
        handlerSchema: take.replace("/job-take/", "/handler-schema/")
      }
      : {}),
    done: yield* Effect.fromResult(jobAddress(postOutput, workerId)),
    stream: yield* Effect.fromResult(jobAddress(postStream, workerId)),
    ping: ping === undefined ? undefined : {
      url: (yield* Effect.fromResult(checkedUrl(ping))).replaceAll(WORKER_PLACEHOLDER, encodeURIComponent(workerId)),
      interval: pingInterval === undefined ? 10_000 : yield* Effect.fromResult(wholeNumber(pingInterval, 50)),
      form: ping.prefix === "RUNPOD_" ? "query" : "json"
    },
    key: key === undefined ? undefined : Redacted.make(key.value)
  }
  return platform
})

const levelOf = Effect.fnUntraced(function*(env: Environment, argv: ReadonlyArray<string>) {
  const word = WorkerFlags.valueOf(argv, "--rp_log_level")
  const variable = find(env, TuningVariable.logLevel) ?? find(env, TuningVariable.debugLevel)
  const given = word === undefined ? variable : { name: "--rp_log_level", value: word }
  if (given === undefined) return "DEBUG"
  const level = LogLine.parseLevel(given.value)
  if (level !== undefined) return level
  return yield* invalid(
    given.name,
    `${given.name} is ${JSON.stringify(given.value)}; it must be one of ${LogLine.LEVELS.join(", ")}.` +
      didYouMean(given.value, LogLine.LEVELS)
  )
})

/** Reads the settings from these variables and this command line. Fails on the first missing or invalid setting. */
export const read = Effect.fnUntraced(function*(env: Environment, argv: ReadonlyArray<string>) {
  const log: LogLine.Style = { ...logStyle(env, argv), level: yield* levelOf(env, argv) }
  const workerId = find(env, WorkerVariable.podId)?.value ?? crypto.randomUUID()
  const grace = find(env, TuningVariable.shutdownGrace)
  const limit = find(env, TuningVariable.unreachableLimit)
  const setup = find(env, TuningVariable.setupTimeout)
  const local = isLocal(env, argv)
  const flags = yield* Effect.fromResult(
    Result.mapError(WorkerFlags.read(argv, local), ({ flag, message }) => invalid(flag, message))
  )
  const settings: Settings = {
    identity: {
      workerId,
      hostname: find(env, WorkerVariable.podHostname)?.value ?? hostname(),
      version: VERSION
    },
    endpoint: find(env, WorkerVariable.endpointId)?.value,
    platform: local ? undefined : yield* platformOf(env, workerId),
    shutdownGrace: grace === undefined ? undefined : yield* Effect.fromResult(wholeNumber(grace, 0)),
    unreachableLimit: limit === undefined ? undefined : yield* Effect.fromResult(wholeNumber(limit, 1)),
    ...(setup === undefined ? {} : { setupTimeout: yield* Effect.fromResult(wholeNumber(setup, 1)) }),
    log,
    flags
  }
  return settings
})

const variables = Effect.gen(function*() {
  const env: Record<string, string> = {}
  for (const prefix of ENV_PREFIXES) {
    for (const name of NAMES) {
      const value = yield* Config.option(Config.String(prefix + name))
      if (Option.isSome(value)) env[prefix + name] = value.value
    }
  }
  return env
})

/** The settings from the current `ConfigProvider` (the process's environment by default) and the given command line. */
export const layer = (
  argv: ReadonlyArray<string> = process.argv.slice(2)
): Layer.Layer<WorkerConfig, WorkerConfigError | Config.ConfigError> =>
  Layer.effect(WorkerConfig, Effect.flatMap(variables, (env) => read(env, argv)))

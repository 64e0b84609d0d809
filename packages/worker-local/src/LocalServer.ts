/**
 * Local test mode with `--rp_serve_api`: the platform's server over a memory store, with this process as its only worker
 * (docs/spec/local-test-mode.md#local-api, docs/spec/rulings.md#local-test-mode).
 *
 * ```
 *   caller --/run, /status/{id} ...--> LocalRoutes --/v2/local/...--> Server --> JobQueue --> MemoryJobStore
 *   this worker --/v2/local/job-take ...----------------------------------^
 * ```
 *
 * The worker calls the server over the loopback address just as it calls a platform, so a handler behaves as it does when deployed. Local
 * test mode differs from a platform as follows: `LocalRoutes` uses other paths and no keys, `LocalJobQueue` creates other job ids, and
 * leases do not expire, because the server is lost whenever the worker is.
 *
 * When the process receives a request to stop, waiting jobs end as FAILED, running jobs finish, and their callers receive responses.
 */
import { JobSource } from "@stint/worker/JobSource"
import * as JobSourceHttp from "@stint/worker/JobSourceHttp"
import { LocalModeError } from "@stint/worker/LocalMode"
import { REQUEST_ID } from "@stint/worker/Logger"
import * as LogLine from "@stint/worker/LogLine"
import { Shutdown } from "@stint/worker/Shutdown"
import * as TestInput from "@stint/worker/TestInput"
import { WorkerConfig } from "@stint/worker/WorkerConfig"
import type { Platform } from "@stint/worker/WorkerConfig"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Severity } from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { RunningServer } from "./LocalApiServer.ts"

/** Options for the local API. */
export interface Options {
  /** Ignored with a log line, because callers submit the jobs. */
  readonly jobs?: unknown
}

/** The default address is reachable only from this machine. The port is the one in docs/spec/local-test-mode.md#flags. */
const DEFAULT_PORT = 8000
const DEFAULT_HOST = "127.0.0.1"

const listenErrorMessage = ({ code, message }: NodeJS.ErrnoException, host: string, port: number): string => {
  switch (code) {
    case "EADDRINUSE":
      return `Port ${port} of ${host} is in use. Stop the other program, or pass --rp_api_port with another port (0 selects a free one).`
    case "EACCES":
      return `Port ${port} of ${host} needs more privileges. Pass --rp_api_port with a port of 1024 or more.`
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `--rp_api_host is "${host}", which is not an address of this machine (${code}). Leave the flag out, or pass 127.0.0.1 or 0.0.0.0.`
    default:
      return `The local API cannot listen on ${host}, port ${port}: ${message}.`
  }
}

const isSystemError = (cause: unknown): cause is Error & { readonly code: string } =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string"

/** Uvicorn's names for the levels. The server has no line above ERROR, so `critical` shows none. */
const SERVER_LEVELS = {
  critical: "NOTSET",
  error: "ERROR",
  warning: "WARN",
  info: "INFO",
  debug: "DEBUG",
  trace: "TRACE"
} as const satisfies Record<string, LogLine.Level>

const isServerLevel = (name: string): name is keyof typeof SERVER_LEVELS => Object.hasOwn(SERVER_LEVELS, name)

/** The lowest level of the server's own lines, as in the Python SDK. Default: the level of the worker's log. */
const serverLevel = Effect.gen(function*() {
  const given = yield* Config.option(Config.NonEmptyString("UVICORN_LOG_LEVEL"))
  if (Option.isNone(given)) return undefined
  const name = given.value.trim().toLowerCase()
  if (isServerLevel(name)) return SERVER_LEVELS[name]
  return yield* new LocalModeError({
    message: `UVICORN_LOG_LEVEL is ${JSON.stringify(given.value)}; it must be one of ${Object.keys(SERVER_LEVELS).join(", ")}.`
  })
})

const SEVERITIES: Record<LogLine.LineLevel, Severity> = {
  TRACE: "Trace",
  DEBUG: "Debug",
  INFO: "Info",
  WARN: "Warn",
  ERROR: "Error"
}

/** Loads and starts the server. */
const startServer = Effect.fnUntraced(function*(host: string, port: number) {
  const context = yield* Effect.context()
  const level = yield* serverLevel
  const { start } = yield* Effect.promise(() => import("./LocalApiServer.ts"))
  const started = yield* Effect.promise(() =>
    start({
      host,
      port,
      log: (severity, message, job) => {
        if (level !== undefined && !LogLine.isLevelEnabled({ level, json: false }, severity)) return
        const line = Effect.logWithLevel(SEVERITIES[severity])(message)
        Effect.runForkWith(context)(job === undefined ? line : Effect.annotateLogs(line, REQUEST_ID, job))
      }
    }).then(
      (server) => ({ _tag: "Started", server } as const),
      (cause: unknown) => {
        if (isSystemError(cause)) return { _tag: "NotListening", cause } as const
        throw cause
      }
    )
  )
  if (started._tag === "Started") return started.server
  return yield* new LocalModeError({ message: listenErrorMessage(started.cause, host, port) })
})

/** The address of the server's worker API, in the form that a worker reads from a platform's variables. */
export const platformOf = (
  { workerKey, workerUrl }: Pick<RunningServer, "workerKey" | "workerUrl">,
  workerId: string
): Platform => {
  const address = (operation: string) => `${workerUrl}/${operation}/${encodeURIComponent(workerId)}`
  return {
    prefix: "PLATFORM_",
    take: `${address("job-take")}?`,
    takeBatch: `${address("job-take-batch")}?`,
    stop: `${address("job-stop")}?`,
    done: [`${address("job-done")}/`, "?"],
    stream: [`${address("job-stream")}/`, "?"],
    ping: undefined,
    key: Redacted.make(workerKey)
  }
}

/** The platform variable that is set and that this process ignores. */
const ignoredPlatform = Effect.gen(function*() {
  for (const name of ["PLATFORM_WEBHOOK_GET_JOB", "RUNPOD_WEBHOOK_GET_JOB"]) {
    if (Option.isSome(yield* Config.option(Config.NonEmptyString(name)))) return name
  }
  return undefined
})

const logStart = Effect.fnUntraced(function*({ baseUrl, isPublic }: RunningServer, options: Options) {
  const { flags } = yield* WorkerConfig
  const platform = yield* ignoredPlatform
  if (platform !== undefined) {
    yield* Effect.logWarning(`--rp_serve_api is given, so ${platform} is ignored: this process takes no jobs from the platform.`)
  }
  if (flags.testInput !== undefined) {
    yield* Effect.logWarning("--rp_serve_api is given, so --test_input is ignored: callers submit the jobs.")
  }
  if (options.jobs !== undefined) {
    yield* Effect.logWarning("--rp_serve_api is given, so jobs_fetcher is ignored: callers submit the jobs.")
  }
  if (isPublic) {
    yield* Effect.logWarning(
      `The local API listens on ${flags.apiHost} and has no keys: every program that can connect to it can run the handler.`
    )
  }
  yield* Effect.logInfo(
    `Local API at ${baseUrl} (open it for the documentation). Try it: ` +
      `curl -s -X POST ${baseUrl}/runsync -H 'Content-Type: application/json' -d ${TestInput.shellWord(TestInput.sample())}`
  )
})

const make = Effect.fnUntraced(function*(options: Options) {
  const { flags, identity } = yield* WorkerConfig
  const shutdown = yield* Shutdown
  let stopping: string | undefined

  /** Fails the waiting jobs. The worker finishes the running jobs. */
  const stop = Effect.fnUntraced(function*(server: RunningServer, reason: string) {
    if (stopping !== undefined) return
    stopping = reason
    const { failed, running } = yield* Effect.promise(() => server.stop(reason))
    yield* Effect.logInfo(
      `Stopping: ${reason}.` +
        (running === 0 ? "" : ` Waiting for ${running} running ${running === 1 ? "job" : "jobs"}.`) +
        (failed === 0 ? "" : ` ${failed} waiting ${failed === 1 ? "job" : "jobs"} failed.`)
    )
  })

  const server = yield* Effect.acquireRelease(
    startServer(flags.apiHost ?? DEFAULT_HOST, flags.apiPort ?? DEFAULT_PORT),
    Effect.fnUntraced(function*(server) {
      // A worker without jobs closes this scope before the fiber below runs.
      const reason = yield* Effect.raceFirst(Effect.interruptible(shutdown.requested), Effect.undefined)
      if (reason !== undefined) yield* stop(server, reason.reason)
      // Fails the jobs that the worker has returned to the queue.
      yield* Effect.promise(() => server.stop(stopping ?? "the worker did not start"))
      if (yield* Effect.promise(() => server.close())) return
      yield* Effect.logWarning("Some webhooks were not delivered in time and are lost.")
    })
  )
  yield* logStart(server, options)
  yield* Effect.forkScoped(Effect.flatMap(shutdown.requested, ({ reason }) => stop(server, reason)))
  return Layer.effect(
    JobSource,
    // No platform would start another worker, so `refresh_worker` does not end this one.
    Effect.map(JobSource, (http) => JobSource.of({ ...http, recycles: false }))
  ).pipe(Layer.provide(JobSourceHttp.layerOf(platformOf(server, identity.workerId))))
})

/** The transport of the local API. The server listens while the layer's scope is open. */
export const layer = (
  options: Options = {}
): Layer.Layer<JobSource, LocalModeError | Config.ConfigError, Shutdown | WorkerConfig> => Layer.unwrap(make(options))

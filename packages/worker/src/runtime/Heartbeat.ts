/**
 * Sends heartbeats, which report that this worker is alive and which jobs it holds (docs/spec/worker-protocol.md#heartbeat).
 *
 * ```
 *   main thread                                    heartbeat thread
 *     job starts, ends --> shared list  <--reads--   every PING_INTERVAL: POST or GET with the ids of the list
 *     log              <----------------- reports when heartbeats start to fail, and when they succeed again
 *     progress         <--message port--> sends the progress of the jobs
 * ```
 *
 * Heartbeats run on a separate thread, because a synchronous handler blocks the main thread, and the platform would treat its job as lost
 * (docs/spec/rulings.md#heartbeat-form). The thread also sends the jobs' progress, for the same reason. The thread starts with the first take, which saves about 20 ms of a cold start. A failed heartbeat
 * does not affect the worker; a thread that dies is restarted.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { Runnable } from "../handlers/Runnable.ts"
import { JobSource } from "../transport/JobSource.ts"
import { makeProgressSender } from "../transport/ProgressSender.ts"
import type { ProgressThread } from "../transport/ProgressThread.ts"
import { heartbeatThread } from "./heartbeatThread.ts"
import type { ThreadData, ThreadReport } from "./heartbeatThread.ts"
import { untilNextHeartbeat } from "./HeartbeatTimes.ts"
import { HEADER, SLOT } from "./InFlightJobs.ts"
import { JobRunner } from "./JobRunner.ts"
import { Ready } from "./Ready.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** The delay before a dead thread is restarted. Milliseconds. */
const RESTART_DELAY = 1_000

/** Timeout for the response to progress, equal to that for a result. Milliseconds. */
const PROGRESS_TIMEOUT = 30_000

/** Runs the thread until it dies, and returns the reason. The thread does not end by itself. */
const runThread = (data: ThreadData, progress: ProgressThread | undefined): Effect.Effect<string, never, Scope.Scope> =>
  Effect.gen(function*() {
    const thread = yield* Effect.acquireRelease(
      Effect.sync(() => {
        // Loaded here and not imported, because nothing before the first take needs it.
        const { Worker } = process.getBuiltinModule("node:worker_threads")
        const port = progress?.connect()
        return new Worker(`(${String(heartbeatThread)})(${String(makeProgressSender)}, ${String(untilNextHeartbeat)})`, {
          eval: true,
          execArgv: [],
          name: "heartbeat",
          workerData: port === undefined ? data : { ...data, progress: port },
          transferList: port === undefined ? [] : [port]
        })
      }),
      (started) => Effect.promise(() => started.terminate())
    )
    thread.unref()
    const context = yield* Effect.context()
    thread.on("message", ({ failure }: ThreadReport) => {
      Effect.runForkWith(context)(
        failure === undefined
          ? Effect.logInfo("Heartbeats succeed again.")
          : Effect.logWarning(
            `Heartbeats fail: ${failure}. Retrying; the platform may assign this worker's jobs to another worker.`
          )
      )
    })
    return yield* Effect.callback<string>((resume) => {
      thread.once("error", (error) => resume(Effect.succeed(String(error))))
      thread.once("exit", (code) => resume(Effect.succeed(`exit code ${code}`)))
    })
  })

const make = Effect.fnUntraced(function*({ batch }: Pick<Runnable, "batch">) {
  const { identity, platform } = yield* WorkerConfig
  const ready = yield* Ready
  const { memory } = yield* JobRunner
  const { progressThread } = yield* JobSource
  if (platform === undefined) return
  if (platform.ping === undefined) {
    return yield* Effect.logWarning(
      `${platform.prefix}WEBHOOK_PING is not set: this worker sends no heartbeats, and the platform may treat its jobs as lost.`
    )
  }
  const { form, interval, url } = platform.ping
  const data: ThreadData = {
    url,
    form,
    interval,
    headers: platform.key === undefined ? {} : { authorization: Redacted.value(platform.key) },
    version: identity.version,
    ...(batch === undefined ? {} : { batch }),
    memory,
    slot: SLOT,
    header: HEADER,
    progressTimeout: PROGRESS_TIMEOUT
  }
  const run = Effect.scoped(runThread(data, progressThread)).pipe(
    Effect.flatMap((death) => Effect.logError(`The heartbeat thread died (${death}). Restarting it.`)),
    Effect.andThen(Effect.sleep(RESTART_DELAY)),
    Effect.forever
  )
  yield* Effect.forkScoped(Effect.andThen(Deferred.await(ready), run))
})

/** Sends heartbeats of a worker with this handler while the layer's scope is open. Does nothing in local test mode. */
export const layer = (
  handler: Pick<Runnable, "batch">
): Layer.Layer<never, never, Ready | JobRunner | JobSource | WorkerConfig> => Layer.effectDiscard(make(handler))

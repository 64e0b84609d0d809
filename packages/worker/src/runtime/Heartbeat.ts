/**
 * Tells the platform that this worker lives and which jobs it holds (docs/spec/worker-protocol.md#heartbeat).
 *
 * ```
 *   main thread                                    heartbeat's thread
 *     job starts, ends --> shared list  <--reads--   every PING_INTERVAL: POST or GET, ids of the list
 *     log              <-----------------says when beats stop arriving, and when they arrive again
 * ```
 *
 * It runs on a thread of its own, because a synchronous handler blocks this one and its job would be taken for lost
 * (docs/spec/rulings.md#heartbeat-form).
 * It starts with the first take, not before, which keeps about 20 ms out of a cold start. A beat that fails never
 * hurts the worker; a thread that dies is started again.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { heartbeatThread } from "./heartbeatThread.ts"
import type { ThreadData, ThreadReport } from "./heartbeatThread.ts"
import { HEADER, SLOT } from "./InFlightJobs.ts"
import { JobRunner } from "./JobRunner.ts"
import { Ready } from "./Ready.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** The wait before a thread that died is started again. Milliseconds. */
const RESTART_DELAY = 1_000

/** Runs the thread until it ends by itself, which it should not; its death is the answer. */
const runThread = (data: ThreadData): Effect.Effect<string, never, Scope.Scope> =>
  Effect.gen(function*() {
    const thread = yield* Effect.acquireRelease(
      Effect.sync(() => {
        // Not imported: nothing before the first take needs it.
        const { Worker } = process.getBuiltinModule("node:worker_threads")
        return new Worker(`(${String(heartbeatThread)})()`, { eval: true, execArgv: [], name: "heartbeat", workerData: data })
      }),
      (started) => Effect.promise(() => started.terminate())
    )
    thread.unref()
    const context = yield* Effect.context()
    thread.on("message", ({ failure }: ThreadReport) => {
      Effect.runForkWith(context)(
        failure === undefined
          ? Effect.logInfo("Heartbeats arrive again.")
          : Effect.logWarning(
            `Heartbeats do not arrive: ${failure}. Trying on; the platform may give this worker's jobs to another.`
          )
      )
    })
    return yield* Effect.callback<string>((resume) => {
      thread.once("error", (error) => resume(Effect.succeed(String(error))))
      thread.once("exit", (code) => resume(Effect.succeed(`exit code ${code}`)))
    })
  })

const make = Effect.gen(function*() {
  const { identity, platform } = yield* WorkerConfig
  const ready = yield* Ready
  const { memory } = yield* JobRunner
  if (platform === undefined) return
  if (platform.ping === undefined) {
    return yield* Effect.logWarning(
      `${platform.prefix}WEBHOOK_PING is not set: this worker sends no heartbeats, and a platform may take its jobs for lost.`
    )
  }
  const { form, interval, url } = platform.ping
  const data: ThreadData = {
    url,
    form,
    interval,
    headers: platform.key === undefined ? {} : { authorization: Redacted.value(platform.key) },
    version: identity.version,
    memory,
    slot: SLOT,
    header: HEADER
  }
  const run = Effect.scoped(runThread(data)).pipe(
    Effect.flatMap((death) => Effect.logError(`The heartbeat's thread died (${death}). Starting it again.`)),
    Effect.andThen(Effect.sleep(RESTART_DELAY)),
    Effect.forever
  )
  yield* Effect.forkScoped(Effect.andThen(Deferred.await(ready), run))
})

/** The duty as a layer: it beats while the layer's scope is open. Nothing in local test mode. */
export const layer: Layer.Layer<never, never, Ready | JobRunner | WorkerConfig> = Layer.effectDiscard(make)

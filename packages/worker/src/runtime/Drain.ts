/**
 * The end of a worker, in order (docs/spec/worker-lifecycle.md#shutdown).
 *
 * ```
 *   no more takes --> goodbye, naming the jobs held --> wait until they are delivered --> goodbye, naming none
 *   (TakeLoop's scope closed)                               |                                ^
 *                                                           +--grace over--> interrupt them -+
 * ```
 *
 * The goodbye is a ping with `status=exiting`. Our platform hands this worker nothing more after it and gives back at once
 * whatever it had handed out and the goodbye does not name: a job whose take was cut off in that instant, or that the grace was
 * too short for. Other platforms find those when their leases end.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { JobSource } from "../transport/JobSource.ts"
import { JobRunner } from "./JobRunner.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** How long a goodbye may take. Milliseconds. A platform that is down must not keep its workers. */
const EXIT_PING_TIMEOUT = 2_000

const make = Effect.gen(function*() {
  const source = yield* JobSource
  const jobs = yield* JobRunner
  const { identity, platform, shutdownGrace } = yield* WorkerConfig

  const exitPing = Effect.suspend(() => {
    const jobIds = jobs.jobIds()
    return source.ping({
      ...(jobIds.length > 0 ? { job_id: jobIds } : {}),
      runpod_version: identity.version,
      status: "exiting"
    })
  }).pipe(
    Effect.interruptible,
    Effect.timeoutOption(EXIT_PING_TIMEOUT),
    Effect.catch((error) => Effect.logDebug(`The goodbye did not arrive: ${error.message}.`))
  )

  const awaitJobs = Effect.gen(function*() {
    const count = jobs.size()
    // In local test mode the only job is the one whose result asked for the end.
    if (platform !== undefined) {
      yield* Effect.logInfo(
        `Waiting for ${count} running ${count === 1 ? "job" : "jobs"}${
          shutdownGrace === undefined ? "" : `, ${shutdownGrace} ms at most`
        }.`
      )
    }
    const awaitIdle = Effect.interruptible(jobs.awaitIdle)
    if (shutdownGrace === undefined) return yield* awaitIdle
    if (shutdownGrace > 0 && Option.isSome(yield* Effect.timeoutOption(awaitIdle, shutdownGrace))) return
    yield* Effect.logWarning(
      `${jobs.jobIds().length} jobs are not done after the grace of ${shutdownGrace} ms and are cut off: ${
        jobs.jobIds().join(", ")
      }.`
    )
    yield* jobs.stopAll
  })

  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      yield* exitPing
      if (jobs.size() === 0) return
      yield* awaitJobs
      yield* exitPing
    })
  )
})

/** The duty as a layer: it does its work when the layer's scope closes. */
export const layer: Layer.Layer<never, never, JobSource | JobRunner | WorkerConfig> = Layer.effectDiscard(make)

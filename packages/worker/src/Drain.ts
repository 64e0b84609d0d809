/**
 * The end of a worker, in order (specification 3, "SIGTERM or SIGINT").
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
import { JobSource } from "./JobSource.ts"
import { RunJobs } from "./RunJobs.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** How long a goodbye may take. Milliseconds. A platform that is down must not keep its workers. */
const GOODBYE_LIMIT = 2_000

const make = Effect.gen(function*() {
  const source = yield* JobSource
  const jobs = yield* RunJobs
  const { identity, platform, shutdownGrace } = yield* WorkerConfig

  const goodbye = Effect.suspend(() => {
    const held = jobs.held()
    return source.ping({
      ...(held.length > 0 ? { job_id: held } : {}),
      runpod_version: identity.version,
      status: "exiting"
    })
  }).pipe(
    Effect.interruptible,
    Effect.timeoutOption(GOODBYE_LIMIT),
    Effect.catch((error) => Effect.logDebug(`The goodbye did not arrive: ${error.message}.`))
  )

  const finish = Effect.gen(function*() {
    const count = jobs.size()
    // In local test mode the only job is the one whose result asked for the end.
    if (platform !== undefined) {
      yield* Effect.logInfo(
        `Waiting for ${count} running ${count === 1 ? "job" : "jobs"}${
          shutdownGrace === undefined ? "" : `, ${shutdownGrace} ms at most`
        }.`
      )
    }
    const empty = Effect.interruptible(jobs.empty)
    if (shutdownGrace === undefined) return yield* empty
    if (shutdownGrace > 0 && Option.isSome(yield* Effect.timeoutOption(empty, shutdownGrace))) return
    yield* Effect.logWarning(
      `${jobs.held().length} jobs are not done after the grace of ${shutdownGrace} ms and are cut off: ${jobs.held().join(", ")}.`
    )
    yield* jobs.stopAll
  })

  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      yield* goodbye
      if (jobs.size() === 0) return
      yield* finish
      yield* goodbye
    })
  )
})

/** The duty as a layer: it does its work when the layer's scope closes. */
export const layer: Layer.Layer<never, never, JobSource | RunJobs | WorkerConfig> = Layer.effectDiscard(make)

/**
 * The graceful shutdown of a worker (docs/spec/worker-lifecycle.md#shutdown).
 *
 * ```
 *   no more takes --> exit ping with the held jobs --> wait until they are delivered --> exit ping without jobs
 *   (TakeLoop's scope closed)                              |                                ^
 *                                                          +--grace ends--> interrupt them -+
 *                                                          +--`abandonAfter` ends--> the process exits
 * ```
 *
 * The exit ping has `status=exiting`. After this ping, our platform assigns no more jobs to this worker. It immediately requeues every job
 * that it had assigned to the worker and that the ping does not list: a job whose take was interrupted, or that did not finish within the grace
 * period. Other platforms notice those jobs when their leases expire.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { JobSource } from "../transport/JobSource.ts"
import { JobRunner } from "./JobRunner.ts"
import { ProcessExit } from "./ProcessExit.ts"
import { Shutdown } from "./Shutdown.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** Timeout for an exit ping. Milliseconds. A platform that is down must not delay the exit of its workers. */
const EXIT_PING_TIMEOUT = 2_000

const make = Effect.gen(function*() {
  const source = yield* JobSource
  const jobs = yield* JobRunner
  const shutdown = yield* Shutdown
  const exitNow = yield* ProcessExit
  const { identity, platform, shutdownGrace } = yield* WorkerConfig

  const exitPing = Effect.suspend(() => {
    const jobIds = jobs.jobIds()
    const tokens = jobs.leaseTokens()
    return source.ping({
      ...(jobIds.length > 0 ? { job_id: jobIds } : {}),
      ...(tokens.some((token) => token !== "") ? { lease_token: tokens } : {}),
      runpod_version: identity.version,
      status: "exiting"
    })
  }).pipe(
    Effect.interruptible,
    Effect.timeoutOption(EXIT_PING_TIMEOUT),
    Effect.catch((error) => Effect.logDebug(`The exit ping failed: ${error.message}.`))
  )

  const awaitJobs = Effect.gen(function*() {
    const count = jobs.size()
    const { abandonAfter, exitCode = 0 } = shutdown.current() ?? {}
    const grace = abandonAfter === undefined ? shutdownGrace : Math.min(abandonAfter, shutdownGrace ?? abandonAfter)
    // In local test mode, the only job is the one whose result requested the shutdown.
    if (platform !== undefined) {
      yield* Effect.logInfo(
        `Waiting for ${count} running ${count === 1 ? "job" : "jobs"}${grace === undefined ? "" : `, up to ${grace} ms`}.`
      )
    }
    const awaitIdle = Effect.interruptible(jobs.awaitIdle)
    if (grace === undefined) return yield* awaitIdle
    if (grace > 0 && Option.isSome(yield* Effect.timeoutOption(awaitIdle, grace))) return
    const unfinished = `${jobs.size()} running ${jobs.size() === 1 ? "job" : "jobs"}: ${jobs.jobIds().join(", ")}`
    if (abandonAfter !== undefined) {
      yield* Effect.logError(`The worker exits with code ${exitCode} after waiting ${grace} ms, and abandons ${unfinished}.`)
      return yield* exitNow(exitCode)
    }
    yield* Effect.logWarning(`The shutdown grace of ${grace} ms has ended. Interrupting ${unfinished}.`)
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

/** Runs the shutdown when the layer's scope closes. */
export const layer: Layer.Layer<never, never, JobSource | JobRunner | Shutdown | WorkerConfig> = Layer.effectDiscard(make)

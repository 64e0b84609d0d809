/**
 * Handles errors that no code catches (docs/spec/worker-lifecycle.md#uncaught-errors). By default Node ends the process, which would lose
 * every job that the worker runs.
 *
 * ```
 *   uncaughtException, unhandledRejection --> AsyncLocalStorage names the job
 *        |--running --------------------> the job fails with the error ------------\
 *        |--ended, an exception --------> ERROR line                                +--> the worker takes no more jobs,
 *        |--ended, a rejection ---------> ERROR line; the worker continues         |     finishes the others and exits with 1
 *        +--none, the program's own,
 *           or a pipeline's step -------> ERROR line; the jobs have 30 s to finish -/
 * ```
 *
 * The worker does not continue after an exception, because the code that was interrupted may have left the process in any state. It does
 * continue after a rejection that a job left behind when it ended: no code was interrupted, and no job waits for it.
 *
 * An error that belongs to no job may come from an Effect handler's callback, or from a client that all jobs share. The job that caused it may
 * then never end. The worker therefore waits for a limited time, and exits without the jobs that are still running. The platform starts those
 * jobs again and counts an attempt.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CurrentJob } from "../handlers/CurrentJob.ts"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import { CurrentStep } from "../handlers/CurrentStep.ts"
import * as RunningJob from "../handlers/RunningJob.ts"
import { traceback } from "../handlers/ThrownValue.ts"
import { JobSource } from "../transport/JobSource.ts"
import { JobRunner } from "./JobRunner.ts"
import { REQUEST_ID } from "./Logger.ts"
import * as Shutdown from "./Shutdown.ts"

/**
 * Whether this worker handles the process's uncaught errors. Default: false. `Worker.launch` sets it, because its process belongs to the
 * worker.
 */
export const HandlesUncaughtErrors = Context.Reference<boolean>("@stint/worker/UncaughtErrors/HandlesUncaughtErrors", {
  defaultValue: () => false
})

/**
 * How long the jobs have to finish after an error that belongs to no job. Milliseconds. Longer than most jobs take, and equal to the default
 * lease.
 */
const UNKNOWN_JOB_GRACE = 30_000

type Origin = "uncaughtException" | "unhandledRejection"

const WHAT: Record<Origin, string> = {
  uncaughtException: "An exception that no code catches",
  unhandledRejection: "A rejected promise that no code handles"
}

const make = Effect.gen(function*() {
  const jobs = yield* JobRunner
  const shutdown = yield* Shutdown.Shutdown
  const { recycles = true } = yield* JobSource
  const context = yield* Effect.context()

  const reason = (origin: Origin): Shutdown.Reason => ({
    reason: origin === "uncaughtException" ? "an exception was not caught" : "a rejected promise was not handled",
    exitCode: 1
  })

  const ofJob = Effect.fnUntraced(function*(origin: Origin, job: ReceivedJob, thrown: unknown) {
    const fails = yield* jobs.fail(job, thrown)
    // Without `recycles` (the local API), no new worker would replace this one.
    const ends = recycles && (fails || origin === "uncaughtException")
    yield* Effect.logError(
      `${WHAT[origin]} comes from this job${fails ? ". The job fails with it." : ", which has ended."}${
        ends ? " The worker takes no more jobs, finishes the others and exits with code 1." : ""
      }${fails ? "" : `\n${traceback(thrown)}`}`
    )
    if (ends) yield* shutdown.request(reason(origin))
  })

  const ofNoJob = Effect.fnUntraced(function*(origin: Origin, thrown: unknown) {
    yield* Effect.logError(
      `${WHAT[origin]} belongs to no job. The worker takes no more jobs, gives the running ones ${
        UNKNOWN_JOB_GRACE / 1000
      } s to finish, and exits with code 1.\n${traceback(thrown)}`
    )
    yield* shutdown.request({ ...reason(origin), abandonAfter: UNKNOWN_JOB_GRACE })
  })

  const listen = (origin: Origin) => {
    const listener = (thrown: unknown) => {
      // A step's error must not end its run, which another worker can continue.
      const job = RunningJob.service(CurrentStep) === undefined ? RunningJob.service(CurrentJob) : undefined
      RunningJob.current()?.abandon()
      // The job's own log context applies only to its fiber.
      Effect.runForkWith(context)(
        job === undefined ? ofNoJob(origin, thrown) : Effect.annotateLogs(ofJob(origin, job, thrown), REQUEST_ID, job.id)
      )
    }
    return Effect.acquireRelease(
      Effect.sync(() => process.on(origin, listener)),
      () => Effect.sync(() => process.off(origin, listener))
    )
  }

  if (!(yield* HandlesUncaughtErrors)) return
  yield* listen("uncaughtException")
  yield* listen("unhandledRejection")
})

/** Handles uncaught errors while the layer's scope is open, if `HandlesUncaughtErrors` is set. */
export const layer: Layer.Layer<never, never, JobRunner | JobSource | Shutdown.Shutdown> = Layer.effectDiscard(make)

/**
 * Progress of a running job, for plain handlers (docs/spec/progress.md#reporting-progress).
 */
import * as WorkerProgress from "@stint/worker-progress/Progress"
import type { JobRef } from "@stint/worker-progress/Progress"
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import type { JobSource } from "@stint/worker/JobSource"
import * as RunningJob from "@stint/worker/RunningJob"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as log from "./log.ts"

/** The progress of the process's one worker, for code that no job can be found from, such as callbacks of a library. */
const started: { progress?: WorkerProgress.Progress["Service"] } = {}

/**
 * Shows a value, anything that JSON can hold, to those who ask for the job's status while it runs.
 *
 * Returns at once and never throws. Values reach the platform in order; while one is on its way, newer ones replace each other, and none
 * comes after the job's result. A value for a job that has ended is ignored.
 *
 * @example
 * ```ts
 * sdk.serverless.progress_update(job, { step: "resize", done: 3, of: 8 })
 * ```
 */
export const progress_update = (job: JobRef, progress: unknown): void => {
  const service = RunningJob.service(WorkerProgress.Progress) ?? started.progress
  if (service === undefined) log.warn("progress_update is ignored: no worker runs in this process.", job.id)
  else service.update(job, progress)
}

/** Progress of the worker's jobs, and of code that runs outside of them. */
export const middleware: JobMiddleware.JobMiddleware<WorkerProgress.Progress, never, JobSource | Scope.Scope> = JobMiddleware
  .unwrap(
    Effect.gen(function*() {
      const { middleware, progress } = yield* WorkerProgress.make({})
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          started.progress = progress
        }),
        () => Effect.sync(() => delete started.progress)
      )
      return middleware
    })
  )

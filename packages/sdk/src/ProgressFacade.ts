/**
 * `progress_update`, and the middleware that provides progress to the jobs (docs/spec/progress.md#reporting-progress).
 */
import * as WorkerProgress from "@stint/worker-progress/Progress"
import type { JobRef } from "@stint/worker-progress/Progress"
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import type { JobSource } from "@stint/worker/JobSource"
import * as RunningJob from "@stint/worker/RunningJob"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as log from "./log.ts"

/** The progress service of this process's worker, for code that runs outside a job, such as a library's callbacks. */
const started: { progress?: WorkerProgress.Progress["Service"] } = {}

/**
 * Reports the progress of a running job: `/status` returns the value as the job's `output` until the job ends. The value can be any JSON
 * value.
 *
 * Returns at once and never throws. The worker sends values in order. While a value is in flight, a newer value replaces the waiting one,
 * so callers may not see every value. A value for an ended job is ignored.
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

/** Provides progress to the worker's jobs, and to code that runs outside them. */
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

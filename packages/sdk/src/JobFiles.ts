/**
 * The folders that the facade creates for a job, and their removal when the job ends (docs/spec/downloads.md#downloading-files).
 */
import { CurrentJob } from "@stint/worker/CurrentJob"
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import * as RunningJob from "@stint/worker/RunningJob"
import * as Effect from "effect/Effect"
import { dirname } from "node:path"

/** The folders by job. */
const folders = new Map<string, Set<string>>()

/** Removes this folder when the job ends, if the calling code belongs to the job. Otherwise the folder stays. */
export const removeAfterJob = (jobId: string, folder: string): void => {
  if (RunningJob.service(CurrentJob)?.id !== jobId) return
  const known = folders.get(jobId)
  if (known === undefined) folders.set(jobId, new Set([folder]))
  else known.add(folder)
}

const remove = (folder: string): Effect.Effect<void> => {
  // Loaded here and not imported, because most workers download nothing.
  const { rm, rmdir } = process.getBuiltinModule("node:fs/promises")
  return Effect.tryPromise(() => rm(folder, { recursive: true, force: true })).pipe(
    // The parent may contain the handler's files.
    Effect.andThen(Effect.ignore(Effect.tryPromise(() => rmdir(dirname(folder))))),
    Effect.catch(({ cause }) => Effect.logWarning(`The downloads in ${folder} could not be removed: ${String(cause)}`))
  )
}

/** Removes a job's folders when it ends. */
export const middleware: JobMiddleware.JobMiddleware = JobMiddleware.make((next, job) =>
  Effect.ensuring(
    next(job),
    Effect.suspend(() => {
      const created = folders.get(job.id)
      if (created === undefined) return Effect.void
      folders.delete(job.id)
      return Effect.forEach(created, remove, { discard: true })
    })
  )
)

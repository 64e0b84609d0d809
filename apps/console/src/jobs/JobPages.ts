/**
 * The pages of a job list as one list.
 */
import type { FoundJob, SearchPage } from "@stint/contract/BulkApi"

/**
 * Puts the newest page, which is polled, before the older pages, which were read once. A job in both is shown once, with its newer state.
 */
export const mergePages = (newest: ReadonlyArray<FoundJob>, older: ReadonlyArray<SearchPage>): ReadonlyArray<FoundJob> => {
  const seen = new Set<string>()
  const merged: Array<FoundJob> = []
  for (const job of [...newest, ...older.flatMap(({ jobs }) => jobs)]) {
    if (seen.has(job.id)) continue
    seen.add(job.id)
    merged.push(job)
  }
  return merged
}

/** The number of jobs on the newest page that are not shown yet. */
export const countNew = (shown: ReadonlyArray<FoundJob>, newest: ReadonlyArray<FoundJob>): number => {
  const known = new Set(shown.map(({ id }) => id))
  return newest.filter(({ id }) => !known.has(id)).length
}

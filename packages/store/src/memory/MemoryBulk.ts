/**
 * Bulk operations in memory: part of the memory store, which changes an operation in the same step as a job.
 */
import * as Effect from "effect/Effect"
import { BULK_KEPT, BULK_LIST_LIMIT, bulkFollows, type BulkRecord, BulkStore, isBulkEnded } from "../jobs/BulkStore.ts"

const byCreation = (a: BulkRecord, b: BulkRecord): number => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1)

/** The store, and the steps of an operation. */
export const make = () => {
  const records = new Map<string, BulkRecord>()
  const isNext = (after: BulkRecord): boolean => bulkFollows(after, records.get(after.id))
  const put = (after: BulkRecord) => {
    records.set(after.id, after)
    if (after.version > 1 || records.size <= BULK_KEPT) return
    const old = [...records.values()].sort(byCreation).slice(0, -BULK_KEPT)
    for (const one of old) if (isBulkEnded(one)) records.delete(one.id)
  }

  const service = BulkStore.of({
    get: (id) => Effect.sync(() => records.get(id)),
    list: Effect.sync(() => [...records.values()].sort(byCreation).reverse().slice(0, BULK_LIST_LIMIT)),
    unended: Effect.sync(() => [...records.values()].filter((one) => !isBulkEnded(one)).sort(byCreation)),
    put: (after) =>
      Effect.sync(() => {
        if (!isNext(after)) return false
        put(after)
        return true
      })
  })
  return { service, isNext, put }
}

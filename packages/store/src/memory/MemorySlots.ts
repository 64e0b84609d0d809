/**
 * The slots of concurrency keys in memory (ConcurrencyRule.ts).
 */
import type { EndpointId } from "@stint/contract/Ids"
import { asksForSlot, hasSlot, isAdmitted, type KeyUsage, makeLimits, releasable, withHeld } from "../jobs/ConcurrencyRule.ts"
import type { JobHead } from "../jobs/JobRecord.ts"

/** A job of the store. */
interface SlottedEntry {
  head: JobHead
  readonly order: number
  /** When the job received its slot: a position among all slots. 0 without a key. */
  turn: number
}

/** The jobs with a concurrency key that have not ended. */
export const make = <Entry extends SlottedEntry>() => {
  const limits = makeLimits()
  /** By endpoint and key, in order of submission. */
  const byKey = new Map<string, Set<Entry>>()
  let turns = 0

  const nameOf = ({ concurrency, endpoint }: JobHead): string => `${endpoint}\n${concurrency?.key}`

  /** The usage of a job's key by other jobs. */
  const usageOf = (job: JobHead): KeyUsage => {
    let [running, ready, held] = [0, 0, 0]
    for (const { head } of byKey.get(nameOf(job)) ?? []) {
      if (head.id === job.id) continue
      if (!hasSlot(head)) held += head.concurrency?.held === true ? 1 : 0
      else if (head.status === "IN_PROGRESS") running += 1
      else ready += 1
    }
    return { running, ready, held }
  }

  /** Held jobs with a job's key, in the order in which they are released. */
  const heldOf = (job: JobHead): ReadonlyArray<Entry> =>
    [...byKey.get(nameOf(job)) ?? []].filter(({ head }) => head.concurrency?.held === true).sort((a, b) =>
      b.head.priority - a.head.priority || a.order - b.order
    )

  return {
    setLimit: (endpoint: EndpointId, limit: number | undefined) => limits.set(endpoint, limit),
    /** Adds or removes a changed job that has a key. */
    index: (entry: Entry) => {
      const name = nameOf(entry.head)
      const jobs = byKey.get(name)
      if (entry.head.finishedAt === null) {
        if (jobs === undefined) byKey.set(name, new Set([entry]))
        else jobs.add(entry)
      } else if (jobs?.delete(entry) === true && jobs.size === 0) byKey.delete(name)
    },
    /** Gives a job the slot that it asks for, or holds it. `before` is undefined for a new job. */
    place: (entry: Entry, before: JobHead | undefined) => {
      const { head } = entry
      if (head.concurrency === null) return
      if (before === undefined) limits.set(head.endpoint, head.concurrency.limit)
      const asks = asksForSlot(before, head)
      const admitted = asks && isAdmitted(usageOf(head), limits.of(head.endpoint))
      entry.head = withHeld(head, asks && !admitted)
      if (admitted) entry.turn = ++turns
    },
    /** Releases held jobs with the key of a job that has freed its slot. `change` updates the store's own indexes. Returns their number. */
    release: (job: JobHead, now: number, change: (entry: Entry, update: () => void) => void): number => {
      const free = releasable(usageOf(job), limits.of(job.endpoint))
      const released = free === 0 ? [] : heldOf(job).slice(0, free)
      for (const entry of released) {
        change(entry, () => {
          entry.head = { ...withHeld(entry.head, false), queuedAt: now }
          entry.turn = ++turns
        })
      }
      return released.length
    },
    /** The usage of a held job's key. `held` counts the held jobs before it, up to `limit`. */
    usage: (entry: Entry, limit: number): KeyUsage => ({
      ...usageOf(entry.head),
      held: Math.min(limit, heldOf(entry.head).indexOf(entry))
    })
  }
}

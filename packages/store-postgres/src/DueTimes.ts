/**
 * When a node must ask the database whether timers are due. An idle node asks once a second, and fires timers as punctually as if it always asked.
 *
 * ```
 *   written by this node   remembered when it is due soon                  this node asks when it is due
 *   written by another     read before it is due, by one of these asks     the oldest node asks when it is due, the others within a second
 * ```
 *
 * A timer that is due so soon that no ask reads it before is remembered by the node that wrote it; if that node dies, the next ask of another one
 * finds it. All times are those of the timers, in Unix milliseconds.
 */
import { dueAt } from "@stint/store/JobMachine"
import type { Heartbeat } from "./Heartbeat.ts"
import type { Work } from "./Work.ts"

/** The longest time between two asks, less the time by which a sweep may be early. Milliseconds. */
const PAUSE_MILLIS = 900

/** Each ask reads the timers that are due within this time. Longer than the time between two asks, which is a multiple of the interval of the sweeps. */
export const AHEAD_MILLIS = 1_500

/** A node remembers its own timers that are due within this time, which the other nodes may not have read yet. Milliseconds. */
const REMEMBERED_MILLIS = 3_000

/** The due times that a node knows. */
export interface DueTimes {
  /** Remembers the timers that a transaction has written or may have written. */
  readonly wrote: (work: Pick<Work, "entries" | "runWork">) => void
  /** Whether the database must be asked. */
  readonly mustAsk: (now: number) => boolean
  /** All timers that were due have fired. `next`: the earliest that the ask has read. */
  readonly asked: (now: number, next: number) => void
}

/** Nothing is known, so the database must be asked. Without a recent heartbeat, it must always be asked. */
export const make = (heartbeat: Pick<Heartbeat, "isOldest" | "isRecent">): DueTimes => {
  /** When this module was used last, so that the timers of a node that fires none are not remembered. */
  let usedAt = -Infinity
  let askedAt = -Infinity
  let next = -Infinity
  const own = new Set<number>()
  return {
    wrote: ({ entries, runWork }) => {
      // The children of ended runs that remain to be cancelled.
      if (runWork.changes.cancels.length > 0) own.add(usedAt)
      for (const { head, removed, stored } of entries.values()) {
        if (removed || head === stored) continue
        const at = dueAt(head)
        if (at <= usedAt + REMEMBERED_MILLIS) own.add(Math.max(at, usedAt))
      }
    },
    mustAsk: (now) => {
      usedAt = now
      let isDue = heartbeat.isOldest() && next <= now
      for (const at of own) if (at <= now) isDue = own.delete(at)
      // The clock may have been set back.
      if (!isDue && heartbeat.isRecent() && Math.abs(now - askedAt) < PAUSE_MILLIS) return false
      askedAt = -Infinity
      return true
    },
    asked: (now, earliest) => {
      askedAt = now
      next = earliest
    }
  }
}

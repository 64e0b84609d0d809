/**
 * Where the claims of a node begin to read while `ready` has many dead rows (DeadRows.ts): behind the dead rows of the jobs that were claimed before.
 *
 * ```
 *   claim order of an endpoint:   priority 9   |   priority 0: dead dead dead ... dead | live live live   |   priority -1
 *                                  read whole                                          ^ cursor               read whole
 * ```
 *
 * A job may become ready before the cursor: this node moves the cursor back to it (`arrived`). Of the jobs of other nodes, and of transactions that
 * committed late, the cursor knows nothing, so a claim that finds no job reads everything, and so does one claim a second. Until then, a job before
 * the cursor waits behind newer jobs of the same priority. Correctness does not depend on the cursor.
 */
import type { DeadRows } from "./DeadRows.ts"

/** A place in the claim order of an endpoint: `seq` is the column of `ready`. */
export interface Place {
  readonly priority: number
  readonly seq: number
}

/** How often a claim reads everything. */
const WHOLE_MILLIS = 1_000

/** A claim that reads everything may take this part of the time: when it takes longer, it is rarer. */
const WHOLE_SHARE = 1 / 20

/** The cursors of a node. */
export interface ClaimCursors {
  /** The place at which to begin; undefined to read everything. */
  readonly of: (endpoint: string) => Place | undefined
  /**
   * A claim has found these jobs, in claim order. `tookMillis`: how long it took if it has read everything; undefined for a claim that began at the
   * cursor.
   */
  readonly found: (endpoint: string, places: ReadonlyArray<Place>, tookMillis?: number) => void
  /** A job becomes ready with the next commit. */
  readonly arrived: (endpoint: string, place: Place) => void
}

interface Cursor {
  place: Place
  readonly wholeAt: number
}

/** No cursors. `elapsed`: the monotonic time in milliseconds. */
export const make = (deadRows: DeadRows, elapsed: () => number = () => performance.now()): ClaimCursors => {
  const cursors = new Map<string, Cursor>()

  /** The first job of the lowest priority that was found: the other jobs of this priority before it were not ready. */
  const startOf = (places: ReadonlyArray<Place>): Place | undefined => {
    const lowest = places.at(-1)?.priority
    return places.find(({ priority }) => priority === lowest)
  }

  return {
    of: (endpoint) => {
      if (!deadRows.isMany("ready")) {
        cursors.clear()
        return undefined
      }
      const cursor = cursors.get(endpoint)
      return cursor === undefined || elapsed() >= cursor.wholeAt ? undefined : cursor.place
    },
    found: (endpoint, places, tookMillis) => {
      const place = startOf(places)
      if (tookMillis !== undefined) {
        if (place === undefined || !deadRows.isMany("ready")) cursors.delete(endpoint)
        else cursors.set(endpoint, { place, wholeAt: elapsed() + Math.max(WHOLE_MILLIS, tookMillis / WHOLE_SHARE) })
        return
      }
      const cursor = cursors.get(endpoint)
      if (cursor !== undefined && place !== undefined && place.priority <= cursor.place.priority) cursor.place = place
    },
    arrived: (endpoint, place) => {
      const cursor = cursors.get(endpoint)
      if (cursor?.place.priority === place.priority && place.seq < cursor.place.seq) cursor.place = place
    }
  }
}

/**
 * What the heartbeats of this node have read, so that other modules need not ask the database again.
 *
 * ```
 *   heartbeat, every second --> versions of the lists     a list is read again only if its version has changed
 *                           `-> oldest live node?         the oldest node asks for due timers when one is due (DueTimes.ts)
 * ```
 *
 * It only saves statements. Without a recent heartbeat, such as in a store without nodes, nothing is known and everything is read as if there
 * were none.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"

/** The tables that are read as a whole, and change rarely. */
export const LISTS = ["endpoints", "keys", "secrets"] as const

type List = typeof LISTS[number]

/** What a heartbeat has read. */
export interface Seen {
  /** Whether no live node has started before this one. */
  readonly isOldest: boolean
  /** {@link versionOf} each table; null if this heartbeat has not read it. */
  readonly versions: Readonly<Record<List, string | null>>
}

/** A list that was read. */
export interface ListRead {
  /** The monotonic time in milliseconds before the list was read. */
  readonly at: number
  /** Undefined if the list has changed since. */
  readonly version: string | undefined
}

/** How long the result of a heartbeat is used, in milliseconds from before it was sent. The next one arrives after about a second. */
const RECENT_MILLIS = 1_250

/** Each heartbeat of this number reads the version of the keys. There may be 100,000 of them, and a revocation may take five seconds. */
export const BEATS_FOR_KEYS = 4

/** For how long a version is known, in milliseconds. */
const KNOWN_MILLIS = { endpoints: RECENT_MILLIS, secrets: RECENT_MILLIS, keys: (BEATS_FOR_KEYS - 1) * 1_000 + RECENT_MILLIS }

/** The version of a list without rows. */
export const EMPTY = "0"

/** Changes with every change to the rows: each change of a row gives it another `xmin`. A change is only missed if two sums of 64-bit hashes are equal. */
const VERSION = "sum(hashtextextended(xmin::text, 0))"

/** An expression for the version of a list. Reads the whole table. */
export const versionOf = (list: List): string => `(SELECT coalesce(${VERSION}, ${EMPTY})::text FROM stint.${list})`

/** The same in each row of a statement that reads the whole list. */
export const LISTED_VERSION = `(${VERSION} OVER ())::text`

/** The last heartbeat of a node. */
export interface Heartbeat {
  /** The monotonic time in milliseconds. */
  readonly time: () => number
  /** Takes over what a heartbeat has read that was sent at a time. */
  readonly received: (sentAt: number, seen: Seen) => void
  /** Waits for the next heartbeat, but no longer than the last one is recent. */
  readonly next: Effect.Effect<void>
  /** Whether there is a recent heartbeat. */
  readonly isRecent: () => boolean
  /** Whether this node was the oldest one at a recent heartbeat. */
  readonly isOldest: () => boolean
  /** Whether no other version of the list has been read since, and one of the last heartbeats was so recent that it would have been. */
  readonly isCurrent: (list: List, read: ListRead) => boolean
}

/** No heartbeat yet. */
export const make = (clock: Clock.Clock): Heartbeat => {
  let following = Latch.makeUnsafe()
  const time = () => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
  let last: Seen | undefined
  let lastAt = -Infinity
  const seen = new Map<List, ListRead>()
  const recent = () => time() - lastAt < RECENT_MILLIS ? last : undefined
  return {
    time,
    received: (sentAt, beat) => {
      last = beat
      lastAt = sentAt
      for (const list of LISTS) {
        const version = beat.versions[list]
        if (version !== null) seen.set(list, { at: sentAt, version })
      }
      const arrived = following
      following = Latch.makeUnsafe()
      arrived.openUnsafe()
    },
    next: Effect.suspend(() => {
      const left = lastAt + RECENT_MILLIS - time()
      return left > 0 ? Effect.asVoid(Effect.timeoutOption(following.await, left)) : following.await
    }),
    isRecent: () => recent() !== undefined,
    isOldest: () => recent()?.isOldest === true,
    isCurrent: (list, read) => {
      const known = seen.get(list)
      if (known === undefined || read.version === undefined || recent() === undefined) return false
      return (read.at > known.at || read.version === known.version) && time() - Math.max(read.at, known.at) < KNOWN_MILLIS[list]
    }
  }
}

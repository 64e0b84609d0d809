/**
 * Distributes the events of this platform to readers of `GET /api/v1/events` and to alerts.
 *
 * ```
 *   queue, registry, stores, sender --publish--> listeners              called at once
 *                                      `-------> ring of the newest events --next--> readers, each with a position
 * ```
 *
 * The source checks `isOpen` before it makes an event: without readers and listeners, an event costs this call and nothing else. Events are published
 * after their commit, are never stored, and belong to this node.
 *
 * All readers share one ring buffer, so each reader needs only a position. When the ring is full, the oldest event is overwritten. A reader that has
 * not received it continues with the next one, and first receives the number of events that it has missed. The ring is kept for {@link LINGER_MILLIS}
 * after the last reader disconnects, so that a reader whose connection was lost can resume.
 *
 * A reader ends after a few minutes and resumes at its position, so that its key is checked again. This also frees the slot of a reader whose
 * connection hangs.
 */
import type { PlatformEvent } from "@stint/contract/PlatformEvent"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

type WithoutTime<Event> = Event extends unknown ? Omit<Event, "at"> : never

/** An event as its source publishes it. */
export type NewPlatformEvent = WithoutTime<Exclude<PlatformEvent, { readonly type: "missed" }>>

/** An event with its position. */
export interface ReadEvent {
  readonly id: string
  readonly event: PlatformEvent
}

/** Which events to read. */
export interface ReadOptions {
  /** The id of the last event that the reader has received. Default: only events from now on. */
  readonly after?: string | undefined
  /** Default: all events. */
  readonly accepts?: (event: NewPlatformEvent) => boolean
  /** Whether the reader may use only the first half of the slots, so that keys limited to some endpoints leave slots for the others. */
  readonly isLimited?: boolean
}

/** An open reader. */
export interface EventReader {
  /**
   * The next events, at most {@link PAGE}. Waits for at least one. Empty when the reader has ended, because its time is over or the platform shuts
   * down.
   */
  readonly next: Effect.Effect<ReadonlyArray<ReadEvent>>
  /** The id after which to resume: that of the last event that was read or filtered out. Undefined before the reader's time is over. */
  readonly position: () => string | undefined
}

/** The number of readers has reached its limit. */
export class TooManyReaders extends Schema.TaggedError<TooManyReaders>()("TooManyReaders", { limit: Schema.Int }) {}

/** Called synchronously, so it must be quick and must not throw. `at`: milliseconds since 1970. */
export type Listener = (event: NewPlatformEvent, at: number) => void

/** The hub of the events: sources publish, listeners and readers receive. */
export interface PlatformEventsService {
  /** Whether there are readers or listeners. */
  readonly isOpen: () => boolean
  readonly publish: (event: NewPlatformEvent) => void
  /** Calls the listener for each event while the scope is open. */
  readonly listen: (listener: Listener) => Effect.Effect<void, never, Scope.Scope>
  /** Reads events, from this call on, while the scope is open. */
  readonly open: (options: ReadOptions) => Effect.Effect<EventReader, TooManyReaders, Scope.Scope>
  /** Ends all readers, for the shutdown of the server. */
  readonly close: Effect.Effect<void>
}

/** Default: nothing is published, and a reader receives no event. */
export const PlatformEvents = Context.Reference<PlatformEventsService>("@stint/queue/PlatformEvents", {
  defaultValue: () => ({
    isOpen: () => false,
    publish: () => {},
    listen: () => Effect.void,
    open: () => Effect.succeed({ next: Effect.succeed([]), position: () => undefined }),
    close: Effect.void
  })
})

/** The bounds of the ring. */
export interface Options {
  /** The number of events in the ring. Default: 4,096, which take a few hundred kilobytes. A busy platform publishes that many in a few seconds. */
  readonly capacity?: number
  /** Default: 64. */
  readonly maxReaders?: number
  /** After this time a reader ends. Default: 5 minutes. */
  readonly readFor?: Duration.Input
}

/** The maximum number of events that `next` returns. */
const PAGE = 100

/** How long the ring is kept without a reader. */
const LINGER_MILLIS = 60_000

interface Entry {
  readonly at: number
  readonly event: NewPlatformEvent
}

interface Reader {
  readonly accepts: (event: NewPlatformEvent) => boolean
  /** The number of the next event to read. */
  position: number
  /** Accepted events that were overwritten before they were read; null: an unknown number. */
  missed: number | null
  /** Its time is over. */
  isOver: boolean
  waiting: Deferred.Deferred<void> | undefined
}

const ID = /^([a-z0-9]+-\d+)-(\d{1,15})$/

/** Whether a string has the form of an event id. */
export const isEventId = (text: string): boolean => ID.test(text)

const makeHub = (
  clock: Clock.Clock,
  { capacity = 4_096, maxReaders = 64, readFor = "5 minutes" }: Options
): PlatformEventsService => {
  const startedAt = clock.currentTimeMillisUnsafe().toString(36)
  const listeners = new Set<Listener>()
  const readers = new Set<Reader>()
  let ring: Array<Entry> = []
  /** The numbers of the oldest event in the ring, and of the next event. They begin with 1, so that there is an id before the first event. */
  let first = 1
  let end = 1
  /** Changes after every period in which no events were kept, because an id from before that period cannot tell what was missed. */
  let series = 0
  /** Whether events are kept. */
  let keeping = false
  /** When the last reader left; 0 while there are readers. */
  let leftAt = 0
  let closed = false

  const isKeeping = (): boolean => {
    if (!keeping) return false
    if (readers.size > 0 || clock.currentTimeMillisUnsafe() - leftAt < LINGER_MILLIS) return true
    keeping = false
    ring = []
    return false
  }

  const startKeeping = () => {
    if (isKeeping()) return
    keeping = true
    series += 1
    first = 1
    end = 1
  }

  const idOf = (number: number) => `${startedAt}-${series}-${number}`

  const wake = (reader: Reader) => {
    const { waiting } = reader
    if (waiting === undefined) return
    reader.waiting = undefined
    Deferred.doneUnsafe(waiting, Effect.void)
  }

  let waking = false
  const wakeReaders = () => {
    waking = false
    for (const reader of readers) wake(reader)
  }

  /** Frees the slot of a reader. */
  const leave = (reader: Reader) => {
    if (readers.delete(reader) && readers.size === 0) leftAt = clock.currentTimeMillisUnsafe()
  }

  const overwriteOldest = () => {
    const oldest = ring[first % capacity]
    for (const reader of readers) {
      if (reader.position > first) continue
      reader.position = first + 1
      if (reader.missed !== null && oldest !== undefined && reader.accepts(oldest.event)) reader.missed += 1
    }
    first += 1
  }

  const keep = (entry: Entry) => {
    if (end - first === capacity) overwriteOldest()
    ring[end % capacity] = entry
    end += 1
    // Deferred, because a woken reader runs at once. It would delay the change that is being published, and read one event at a time.
    if (waking || readers.size === 0) return
    waking = true
    setImmediate(wakeReaders)
  }

  const positionAfter = (after: string | undefined): Pick<Reader, "position" | "missed"> => {
    if (after === undefined) return { position: end, missed: 0 }
    const [, prefix, number = ""] = ID.exec(after) ?? []
    const position = Number(number) + 1
    const isKnown = prefix === `${startedAt}-${series}` && position >= first && position <= end
    return isKnown ? { position, missed: 0 } : { position: first, missed: null }
  }

  const positionOf = ({ position }: Reader): string => idOf(position - 1)

  const takeMissed = (reader: Reader): Array<ReadEvent> => {
    const count = reader.missed
    if (count === 0) return []
    reader.missed = 0
    return [{ id: positionOf(reader), event: { type: "missed", at: clock.currentTimeMillisUnsafe(), count } }]
  }

  const take = (reader: Reader): Array<ReadEvent> => {
    const events = takeMissed(reader)
    for (; reader.position < end && events.length < PAGE; reader.position += 1) {
      const entry = ring[reader.position % capacity]
      if (entry === undefined || !reader.accepts(entry.event)) continue
      events.push({ id: idOf(reader.position), event: { ...entry.event, at: entry.at } })
    }
    return events
  }

  const next = (reader: Reader): Effect.Effect<ReadonlyArray<ReadEvent>> =>
    Effect.suspend(() => {
      const events = reader.isOver ? takeMissed(reader) : take(reader)
      if (events.length > 0 || closed || reader.isOver) return Effect.succeed(events)
      const waiting = Deferred.makeUnsafe<void>()
      reader.waiting = waiting
      return Effect.andThen(Deferred.await(waiting), next(reader))
    })

  const expire = (reader: Reader) => {
    reader.isOver = true
    leave(reader)
    wake(reader)
  }

  return {
    isOpen: () => listeners.size > 0 || isKeeping(),
    publish: (event) => {
      const at = clock.currentTimeMillisUnsafe()
      for (const listener of listeners) listener(event, at)
      if (isKeeping()) keep({ at, event })
    },
    listen: (listener) =>
      Effect.asVoid(Effect.acquireRelease(
        Effect.sync(() => listeners.add(listener)),
        () => Effect.sync(() => listeners.delete(listener))
      )),
    open: ({ accepts = () => true, after, isLimited = false }) =>
      Effect.acquireRelease(
        Effect.suspend(() => {
          const limit = isLimited ? Math.ceil(maxReaders / 2) : maxReaders
          if (readers.size >= limit) return Effect.fail(new TooManyReaders({ limit }))
          startKeeping()
          const reader: Reader = { accepts, ...positionAfter(after), isOver: false, waiting: undefined }
          readers.add(reader)
          return Effect.succeed(reader)
        }),
        (reader) => Effect.sync(() => leave(reader))
      ).pipe(
        Effect.tap((reader) => Effect.forkScoped(Effect.delay(Effect.sync(() => expire(reader)), readFor))),
        Effect.map((reader) => ({ next: next(reader), position: () => reader.isOver ? positionOf(reader) : undefined }))
      ),
    close: Effect.sync(() => {
      closed = true
      for (const reader of readers) wake(reader)
    })
  }
}

/** The events of this platform. */
export const layer = (options: Options = {}): Layer.Layer<never> =>
  Layer.effect(PlatformEvents, Effect.map(Clock.Clock, (clock) => makeHub(clock, options)))

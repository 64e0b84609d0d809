/**
 * A run while this worker holds it: its entries, the writes in flight, and the nodes that wait for an entry from the platform.
 *
 * ```
 *   record  --> collected --> one write per turn of the event loop --> durable
 *   settled --> recorded already: at once
 *           --> otherwise: waits. When every part of the run waits, the run parks:
 *                  an entry arrives within a second        --> continues
 *                  otherwise, and at once if it only sleeps, the run is parked
 *                                                          --> Dropped: the activation ends, and a later one continues
 * ```
 *
 * `active` counts the parts of the run that are not waiting. A part is counted before it resumes, so the count never drops to zero between two of its
 * actions.
 */
import type { JournalEntry, JournalRecord, RunAnswer, RunWrite } from "@stint/contract/RunJournal"
import { SETTLING_KINDS } from "@stint/contract/RunJournal"
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { Journal } from "./Journal.ts"
import type { DefinitionRef, JournalRefused, PlatformGone } from "./Journal.ts"

/** This worker no longer holds the run: it is parked, it has ended, or another worker holds it. */
export class Dropped extends Schema.TaggedError<Dropped>()("Dropped", {
  state: Schema.Literals(["parked", "held", "ended", "lost"]),
  cause: Schema.optionalKey(Schema.String)
}) {}

/** A node failed permanently, so the run fails. */
export interface NodeFailed {
  readonly _tag: "NodeFailed"
  readonly path: string
  readonly message: string
}

/** A caller cancelled the run, and the run has compensations. */
export class Cancelled extends Schema.TaggedError<Cancelled>()("Cancelled", {}) {}

/** The path at which the platform records that a caller has cancelled the run. Users cannot choose this name. */
export const CANCEL_PATH = "~cancel"

/** How long the platform holds the call of a waiting run before it parks the run, as the contract specifies. Milliseconds. */
export const PARK_DELAY_MILLIS = 1_000

/** How often a run with a long step checks whether a caller has cancelled it or another part can continue. Milliseconds. */
const POLL_INTERVAL = 1_000

/** The maximum size of the records in one write, in characters. A larger record is sent alone. Lower than the platform's limit for a result. */
export const MAX_WRITE_LENGTH = 1_000_000

/** The maximum number of records in one write. */
const MAX_WRITE_RECORDS = 1_000

const lengthOf = ({ body, input }: JournalRecord): number =>
  (JSON.stringify(body) ?? "").length + (input === undefined ? 0 : JSON.stringify(input).length)

/** Whether a record is too large to share a write. */
export const isLarge = (record: JournalRecord): boolean => lengthOf(record) > MAX_WRITE_LENGTH

/** The number of leading records that fit into one write: at least one. */
const fitting = (records: ReadonlyArray<JournalRecord>): number => {
  if (records.length < 2) return records.length
  let length = 0
  let count = 0
  for (const record of records) {
    length += lengthOf(record)
    if (count === MAX_WRITE_RECORDS || (count > 0 && length > MAX_WRITE_LENGTH)) break
    count++
  }
  return count
}

/** The records that the platform does not accept, with the reasons. */
type Refusals = ReadonlyMap<JournalRecord, JournalRefused>

/** The suffixes that paths have for attempts. */
const ATTEMPTS = /(?:~\d+)+$/

/** The waits of a `forEach`. Once all its items have begun, the run needs all of these waits, so it need not wake for each. */
export interface Group {
  /** The number of items that have not begun. */
  unstarted: number
}

/** What is known about a wait. */
export interface Wait {
  /** The `forEach` that the wait belongs to. */
  readonly group?: Group | undefined
  /** The time before which nothing settles the path, in milliseconds since 1970. Default: an entry may arrive at any time. */
  readonly notBefore?: number | undefined
}

interface Waiter extends Wait {
  readonly settled: Deferred.Deferred<JournalEntry>
}

/** One activation of a run. */
export interface Activation {
  readonly run: string
  /** The entry that settled the path, if any. */
  readonly find: (path: string) => JournalEntry | undefined
  /** The entry of this kind at the path, if any. */
  readonly at: (path: string, kind: JournalEntry["kind"]) => JournalEntry | undefined
  /** All entries in the order in which they were stored. */
  readonly entries: () => ReadonlyArray<JournalEntry>
  /**
   * Records an entry. Completes when it is durable, with the entry that is stored at its path, which may be a different one that was stored
   * first. A record that the platform does not accept fails its node.
   */
  readonly record: (record: JournalRecord) => Effect.Effect<JournalEntry, NodeFailed>
  /** Records an entry together with the end of the run. */
  readonly recordLast: (record: JournalRecord) => void
  /** Waits until the platform settles the path. */
  readonly settled: (path: string, wait?: Wait) => Effect.Effect<JournalEntry>
  /** Runs `one` for each index, at most `concurrency` at the same time. Fails with the first failure. */
  readonly parallel: <A, E, R>(
    count: number,
    concurrency: number,
    one: (index: number) => Effect.Effect<A, E, R>
  ) => Effect.Effect<ReadonlyArray<A>, E, R>
  /** Ends the run. */
  readonly finish: (finish: NonNullable<RunWrite["finish"]>) => Effect.Effect<void, Dropped | JournalRefused>
  /** The number of chunks that callers have received. */
  readonly chunks: () => number
  readonly emit: (chunk: unknown) => Effect.Effect<void>
  /** The entry that records the run's cancellation, if a caller cancelled it. */
  readonly cancelledBy: () => JournalEntry | undefined
  /** Whether the run is running its compensations: it was cancelled, or an earlier activation failed and a caller retried the compensations. */
  readonly isUndoing: () => boolean
  /** Runs the effect until the run is dropped or cancelled. */
  readonly guard: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E | Dropped | Cancelled, R>
  /** Records what the interrupted nodes did, discards their waits, and runs the compensations until the run is dropped. */
  readonly guardUndo: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E | Dropped, R>
}

/** The path, with the kind if the entry does not settle the path. */
const keyOf = ({ kind, path }: { readonly path: string; readonly kind: JournalEntry["kind"] }) => `${kind} ${path}`

/** Begins an activation, and reads what the run has recorded. Closing the scope ends its writes. */
export const make = Effect.fnUntraced(function*(
  job: ReceivedJob,
  definition: DefinitionRef,
  runtimeEmit: (chunk: unknown) => Effect.Effect<void>
): Effect.fn.Return<Activation, Dropped, Journal | Scope.Scope> {
  const journal = yield* Journal
  const scope = yield* Effect.scope
  const byKey = new Map<string, JournalEntry>()
  const settledAt = new Map<string, JournalEntry>()
  const waiters = new Map<string, Waiter>()
  const dropped = Deferred.makeUnsafe<never, Dropped>()
  const cancelled = Deferred.makeUnsafe<never, Cancelled>()
  const one = Semaphore.makeUnsafe(1)
  const attempt = job.attempt ?? 1

  let active = 1
  let idle = Deferred.makeUnsafe<void>()
  /** The highest number up to which all entries are known. */
  let seen = 0
  let behind = attempt > 1
  let started = false
  let undoing = false
  let compensating = false
  let chunks = 0
  let last: ReadonlyArray<JournalRecord> = []

  const enter = (parts: number) => {
    if (active === 0 && parts > 0) idle = Deferred.makeUnsafe<void>()
    active += parts
  }
  const leave = () => {
    active--
    if (active === 0) Deferred.doneUnsafe(idle, Effect.void)
  }

  const add = (entry: JournalEntry): void => {
    const key = keyOf(entry)
    if (byKey.has(key)) return
    byKey.set(key, entry)
    if (!SETTLING_KINDS.has(entry.kind) || settledAt.has(entry.path)) return
    settledAt.set(entry.path, entry)
    const waiter = waiters.get(entry.path)
    // A cancellation ends the nodes' waits. The nodes must not begin the next step before they are interrupted.
    if (waiter === undefined || (undoing && !compensating)) return
    waiters.delete(entry.path)
    enter(1)
    Deferred.doneUnsafe(waiter.settled, Effect.succeed(entry))
  }

  /**
   * Applies a response. The platform may have written entries between this worker's entries; the next write then requests them. A response to such a
   * request is complete, even if its numbers have gaps because a retry has removed entries.
   */
  const take = (answer: RunAnswer, records: ReadonlyArray<JournalRecord>, isAsked: boolean): void => {
    const answered = new Set(answer.entries.map(keyOf))
    const replaced = new Set(answer.entries.filter(({ kind }) => SETTLING_KINDS.has(kind)).map(({ path }) => path))
    const silent = records.filter((record) =>
      !answered.has(keyOf(record)) && !(SETTLING_KINDS.has(record.kind) && replaced.has(record.path))
    )
    const fresh = answer.entries.filter(({ n }) => n > seen).length
    const complete = answer.more !== true && (isAsked || answer.n === seen + silent.length + fresh)
    if (answer.phase === "undoing" && !undoing) {
      undoing = true
      Deferred.doneUnsafe(cancelled, Effect.fail(new Cancelled()))
    }
    for (const entry of answer.entries) add(entry)
    for (const [at, record] of silent.entries()) {
      add({
        path: record.path,
        kind: record.kind,
        // The records of a write are numbered in their order, so that compensations run in the same order before and after a crash.
        n: answer.n - silent.length + 1 + at,
        at: 0,
        ...(record.body === undefined ? {} : { body: toJson(record.body) })
      })
    }
    behind = !complete
    if (complete) seen = answer.n
    else if (answer.more === true) seen = Math.max(seen, answer.upTo ?? answer.entries.at(-1)?.n ?? 0)
    chunks = Math.max(chunks, answer.chunks)
  }

  const isLost = ({ message }: PlatformGone) => new Dropped({ state: "lost", cause: message })

  /** Sends one write of this run at a time, so that the responses arrive in order. */
  const write = (
    more: Pick<RunWrite, "records" | "park" | "finish">,
    { ask = false, hold = false }: { readonly ask?: boolean; readonly hold?: boolean } = {}
  ): Effect.Effect<RunAnswer, Dropped | JournalRefused> =>
    one.withPermits(1)(Effect.gen(function*() {
      const isAsked = ask || behind
      const answer = yield* journal.write(
        {
          run: job.id,
          attempt,
          ...(job.leaseToken === undefined ? {} : { leaseToken: job.leaseToken }),
          ...(started ? {} : { start: { definition: definition.hash, ...(definition.undo ? { undo: true } : {}) } }),
          ...(isAsked ? { after: seen } : {}),
          ...more
        },
        definition,
        hold
      ).pipe(Effect.catchTag("PlatformGone", (error) => Effect.fail(isLost(error))))
      if (answer.state !== "running" && !(answer.state === "ended" && more.finish !== undefined)) {
        return yield* new Dropped({ state: answer.state, ...(answer.cause === undefined ? {} : { cause: answer.cause }) })
      }
      started = true
      take(answer, more.records ?? [], isAsked)
      return answer
    }))

  /** Reads until nothing is missing. */
  const catchUp: Effect.Effect<void, Dropped> = Effect.suspend(() =>
    Effect.flatMap(accepted(write({}, { ask: true })), () => behind ? catchUp : Effect.void)
  )

  /** Writes records. Returns those that the platform does not accept; the others are stored. */
  const store = (records: ReadonlyArray<JournalRecord>): Effect.Effect<Refusals, Dropped> =>
    write({ records }).pipe(
      Effect.as<Refusals>(new Map()),
      Effect.catchTag("JournalRefused", (error): Effect.Effect<Refusals, Dropped> => {
        if (records.length < 2) return Effect.succeed(new Map(records.map((record) => [record, error] as const)))
        const half = Math.ceil(records.length / 2)
        return Effect.map(
          Effect.forEach([records.slice(0, half), records.slice(half)], store),
          (refused) => new Map(refused.flatMap((part) => [...part]))
        )
      })
    )

  /** Ends the activation, even with a defect. */
  const drop = (cause: Cause.Cause<Dropped>) => Effect.sync(() => void Deferred.doneUnsafe(dropped, Effect.failCause(cause)))

  let pending: Array<{ readonly record: JournalRecord; readonly stored: Deferred.Deferred<JournalEntry, NodeFailed> }> = []
  let flushing = false
  /** Completes when all collected records are written. */
  let flushed = Deferred.makeUnsafe<void>()

  const storedAs = (record: JournalRecord): JournalEntry | undefined =>
    SETTLING_KINDS.has(record.kind)
      ? settledAt.get(record.path)
      // A child whose endpoint does not exist ends at once.
      : byKey.get(keyOf(record)) ?? settledAt.get(record.path)

  const flush: Effect.Effect<void, Dropped> = Effect.gen(function*() {
    // The other parts of the run that end in this turn of the event loop join the same write.
    yield* Effect.yieldNow
    while (pending.length > 0) {
      const batch = pending.slice(0, fitting(pending.map(({ record }) => record)))
      pending = pending.slice(batch.length)
      const refused = yield* store(batch.map(({ record }) => record))
      if (behind && waiters.size > 0) yield* catchUp
      for (const { record, stored } of batch) {
        const message = refused.get(record)?.message
        if (message !== undefined) {
          Deferred.doneUnsafe(stored, Effect.fail({ _tag: "NodeFailed", path: record.path.replace(ATTEMPTS, ""), message }))
          continue
        }
        const entry = storedAs(record)
        Deferred.doneUnsafe(
          stored,
          entry === undefined
            ? Effect.die(new Error(`The platform accepted the ${record.kind} of ${record.path} and did not store it.`))
            : Effect.succeed(entry)
        )
      }
    }
    flushing = false
    Deferred.doneUnsafe(flushed, Effect.void)
  })

  const record = (entry: JournalRecord): Effect.Effect<JournalEntry, NodeFailed> =>
    Effect.suspend(() => {
      const stored = Deferred.makeUnsafe<JournalEntry, NodeFailed>()
      pending.push({ record: entry, stored })
      if (flushing) return Deferred.await(stored)
      flushing = true
      flushed = Deferred.makeUnsafe()
      return Effect.andThen(Effect.forkIn(Effect.catchCause(flush, drop), scope), Deferred.await(stored))
    })

  /** Completes when no write is in flight, so that the entries contain everything that the run did. */
  const quiet: Effect.Effect<void, Dropped> = Effect.gen(function*() {
    if (flushing) yield* Deferred.await(flushed)
    while (last.length > 0) {
      const batch = last.slice(0, fitting(last))
      last = last.slice(batch.length)
      for (const [{ path }, { message }] of yield* store(batch)) {
        yield* Effect.logWarning(`The step "${path}" has ended, but cannot be recorded, and so cannot be undone: ${message}`)
      }
    }
    if (behind) yield* catchUp
  })

  const settled = (path: string, wait: Wait = {}): Effect.Effect<JournalEntry> =>
    Effect.suspend(() => {
      const known = settledAt.get(path)
      if (known !== undefined) return Effect.succeed(known)
      const waiter: Waiter = { ...wait, settled: Deferred.makeUnsafe<JournalEntry>() }
      waiters.set(path, waiter)
      leave()
      return Deferred.await(waiter.settled)
    })

  /** The number of waits that must end before any part of the run can continue. */
  const wakeAfter = (): number => {
    const [first, ...others] = waiters.values()
    const group = first?.group
    return group !== undefined && group.unstarted === 0 && others.every((waiter) => waiter.group === group) ? waiters.size : 1
  }

  const parking = Effect.gen(function*() {
    while (true) {
      yield* Deferred.await(idle)
      if (active > 0) continue
      if (behind) {
        yield* catchUp
        continue
      }
      const soon = (yield* Clock.currentTimeMillis) + PARK_DELAY_MILLIS
      // A run that only sleeps would hold its place in this worker for nothing.
      const hold = [...waiters.values()].some(({ notBefore = 0 }) => notBefore <= soon)
      yield* accepted(write({ park: { seen, ...(wakeAfter() === 1 ? {} : { wakeAfter: wakeAfter() }) } }, { hold }))
    }
  })

  const polling = Effect.gen(function*() {
    while (true) {
      yield* Effect.sleep(POLL_INTERVAL)
      if (active > 0 && started && !undoing && (waiters.size > 0 || definition.undo)) yield* catchUp
    }
  })

  const duties = Effect.catchCause(Effect.raceFirst(parking, polling), drop)

  if (attempt > 1) yield* catchUp
  yield* Effect.forkIn(duties, scope)

  return {
    run: job.id,
    find: (path) => settledAt.get(path),
    at: (path, kind) => byKey.get(keyOf({ path, kind })),
    entries: () => [...byKey.values()].sort((a, b) => a.n - b.n),
    record,
    recordLast: (entry) => {
      last = [...last, entry]
    },
    settled,
    parallel: <A, E, R>(count: number, concurrency: number, each: (index: number) => Effect.Effect<A, E, R>) =>
      Effect.suspend((): Effect.Effect<ReadonlyArray<A>, E, R> => {
        if (count === 0) return Effect.succeed([])
        const results: Array<{ readonly index: number; readonly value: A }> = []
        const workers = Math.min(count, concurrency)
        let next = 0
        let working = workers
        // The part that continues afterwards takes over the count of the part that ends last.
        enter(workers - 1)
        const worker = Effect.gen(function*() {
          while (next < count) {
            const index = next++
            results.push({ index, value: yield* each(index) })
          }
          working--
          if (working > 0) leave()
        })
        return Effect.map(
          Effect.all(Array.from({ length: workers }, () => worker), { concurrency: "unbounded", discard: true }),
          () => results.sort((a, b) => a.index - b.index).map(({ value }) => value)
        )
      }),
    finish: (finish) => Effect.suspend(() => Effect.asVoid(write({ finish, ...(last.length === 0 ? {} : { records: last }) }))),
    chunks: () => chunks,
    emit: (chunk) =>
      Effect.suspend(() => {
        const number = chunks + 1
        const sent = journal.chunk === undefined ? runtimeEmit(chunk) : journal.chunk(job, chunk, number)
        return sent.pipe(
          Effect.map(() => {
            chunks = number
          }),
          Effect.catchTag("PlatformGone", (error) => Effect.andThen(drop(Cause.fail(isLost(error))), Effect.never))
        )
      }),
    cancelledBy: () => byKey.get(`event ${CANCEL_PATH}`),
    isUndoing: () => undoing,
    guard: (self) =>
      undoing
        ? Effect.fail(new Cancelled())
        : Effect.raceFirst(self, Effect.raceFirst(Deferred.await(dropped), Deferred.await(cancelled))),
    guardUndo: (self) =>
      Effect.suspend(() => {
        compensating = true
        waiters.clear()
        // A step that has ended must be recorded, so that it can be undone. The other parts of the run start nothing new.
        last = [...last, ...pending.map((one) => one.record).filter(({ kind }) => kind === "step")]
        pending = []
        if (active === 0) enter(1)
        else active = 1
        return Effect.raceFirst(Effect.andThen(quiet, self), Deferred.await(dropped))
      })
  }
})

/** A write without records and outputs. The platform rejects it only if it cannot be decoded, and then the job fails. */
export const accepted = <A>(self: Effect.Effect<A, Dropped | JournalRefused>): Effect.Effect<A, Dropped> =>
  Effect.catchTag(self, "JournalRefused", Effect.die)

const toJson = (value: unknown): Schema.Json =>
  Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))(JSON.stringify(value) ?? "null")

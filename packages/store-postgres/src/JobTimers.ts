/**
 * Fires the timers of jobs.
 *
 * ```
 *   ordinary jobs                              in one transaction, or else each in its own
 *   runs, children, jobs with concurrency keys in parts: locked in the order of RunLoads.ts
 *   left-over cancels                          children that the ends of runs have left to the timers, in parts
 * ```
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { dueAt, type JobMachineEvent } from "@stint/store/JobMachine"
import type { ApplyResult } from "@stint/store/JobStore"
import { isChild } from "@stint/store/RunTransactions"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { sqlStateOf } from "./Connection.ts"
import { AHEAD_MILLIS } from "./DueTimes.ts"
import { mayRepeat } from "./JobGroupCommit.ts"
import type { PostgresDatabase } from "./PostgresDatabase.ts"
import { CANCELS, DUE, DUE_TABLES, HAS_OPEN_NESTED, lockDue, NEXT_DUE } from "./TimerQueries.ts"
import type { Work } from "./Work.ts"

const decodeId = Schema.decodeUnknownSync(Schema.Tuple([JobId]))
const decodeNext = Schema.decodeUnknownSync(Schema.Tuple([Schema.NullOr(Schema.Int)]))
const decodeDue = Schema.decodeUnknownSync(Schema.Tuple([JobId, Schema.Boolean]))
const decodeCancel = Schema.decodeUnknownSync(Schema.Tuple([JobId, EndpointId]))

/** How many runs, children and jobs with concurrency keys the timers handle in one transaction. The end of a run may change thousands of children. */
const MAX_RELATED_PART = 20

/** How many children of ended runs the timers cancel in one transaction. */
const CANCEL_PART = 200

/** How long to keep a run whose retention has ended while a nested run is still running its compensations. Then the run is checked again. */
const KEPT_MILLIS = 60_000

/** After this many attempts, a run whose timer cannot be fired within the time limit no longer blocks other timers. */
const MAX_ATTEMPTS = 3

/** The effects of the timers. */
type Fired = ReadonlyArray<readonly [id: JobId, applied: ApplyResult]>

type Tick = Extract<JobMachineEvent, { readonly _tag: "Tick" }>

/** Lost connections, timeouts, full disks and other states of the server: the same change may succeed later. */
const STATE_OF_SERVER = /^(08|25|40|53|55|57|58)/

/** Whether the change itself failed, so that it would fail again. */
const isOwnFault = ({ reason }: StoreError): boolean =>
  reason._tag === "StoreUnavailable" && reason.logged !== true && !mayRepeat(reason.cause) &&
  !STATE_OF_SERVER.test(sqlStateOf(reason.cause) ?? "")

/** Fires up to `limit` due timers. While the node has heartbeats, it asks the database only when one may be due (DueTimes.ts). */
export const make = (
  db: PostgresDatabase["Service"]
): (event: Tick, limit: number) => Effect.Effect<ReadonlyArray<ApplyResult>, StoreError> => {
  /**
   * Keeps the runs whose retention has ended but whose nested runs have not: the job at the top serves as the lock of all of them (RunLoads.ts).
   * Returns their ids.
   */
  const keepRoots = async ({ entries, query }: Work, ids: ReadonlyArray<JobId>, now: number) => {
    const roots = ids.filter((id) => {
      const entry = entries.get(id)
      return entry?.isRun === true && entry.head.finishedAt !== null && !isChild(id)
    })
    const kept = roots.length === 0 ? [] : (await query(HAS_OPEN_NESTED, [roots])).map((row) => decodeId(row)[0])
    if (kept.length > 0) {
      await query(`UPDATE stint.ended SET due_at = $2 WHERE id = ANY($1::text[])`, [kept, now + KEPT_MILLIS])
    }
    return new Set(kept)
  }

  /** Fires the timers of jobs, if they are still due. */
  const fire = (ids: ReadonlyArray<JobId>, event: Tick) =>
    db.alone("tick", async ({ lockRuns, work }): Promise<Fired> => {
      await lockRuns({ ends: ids })
      const kept = await keepRoots(work, ids, event.now)
      return ids.flatMap((id) => {
        const entry = work.entries.get(id)
        // Another command, or the timer of its run, has changed the job since.
        const isDue = entry !== undefined && !entry.removed && dueAt(entry.head) <= event.now
        return isDue && !kept.has(id) ? [[id, work.apply(entry, event)] as const] : []
      })
    })

  /** Fires the timers of each job in its own transaction. A job that cannot be changed must not stop all timers. */
  const fireEach = (ids: ReadonlyArray<JobId>, event: Tick): Effect.Effect<Fired, StoreError> =>
    Effect.map(
      Effect.forEach(ids, (id) =>
        fire([id], event).pipe(
          Effect.catchIf(isOwnFault, (error) =>
            Effect.sync((): Fired => {
              db.unreadable.skip(id, event.now, error)
              return []
            }))
        )),
      (parts) => parts.flat()
    )

  /** Fires the timers of ordinary jobs in one transaction, or else each in its own. */
  const fireOrdinary = (ids: ReadonlyArray<JobId>, event: Tick): Effect.Effect<Fired, StoreError> =>
    ids.length === 0 ? Effect.succeed([]) : db.alone("tick", async ({ lockBatches, unreadable, work }): Promise<Fired> => {
      const found = await Promise.all(DUE_TABLES.map((place) => work.query(lockDue(place), [event.now, ids])))
      const entries = unreadable.readable(found.flat(), event.now).map(work.add)
      await lockBatches(entries.flatMap(({ head: { batchId } }) => batchId === null ? [] : [batchId]))
      const turns = new Map(ids.map((id, turn) => [id, turn]))
      return entries
        .sort((a, b) => (turns.get(a.head.id) ?? 0) - (turns.get(b.head.id) ?? 0))
        .map((entry) => [entry.head.id, work.apply(entry, event)] as const)
    }).pipe(
      Effect.catchIf(isOwnFault, () => fireEach(ids, event))
    )

  let relatedPart = MAX_RELATED_PART
  /** How often the timer of a run could not be fired because of the server, since the last timer that could. */
  const failures = new Map<JobId, number>()

  /** Skips a run that repeatedly cannot be changed within the time limit. The database itself works, because the timers have just been read. */
  const giveUp = (part: ReadonlyArray<JobId>, now: number, error: StoreError) =>
    Effect.sync(() => {
      relatedPart = 1
      const [id] = part
      if (id === undefined || part.length > 1) return
      const count = (failures.get(id) ?? 0) + 1
      if (count < MAX_ATTEMPTS) failures.set(id, count)
      else {
        failures.delete(id)
        db.unreadable.skip(id, now, error)
      }
    })

  /**
   * Fires the timers of runs, their children and jobs with concurrency keys, in several transactions. If a transaction fails because of the server,
   * for example because it takes too long, the next tick fires each timer in its own transaction.
   */
  const fireRelated = (ids: ReadonlyArray<JobId>, event: Tick): Effect.Effect<Fired, StoreError> => {
    if (ids.length === 0) return Effect.succeed([])
    const parts = Array.from(
      { length: Math.ceil(ids.length / relatedPart) },
      (_, at) => ids.slice(at * relatedPart, (at + 1) * relatedPart)
    )
    return Effect.forEach(parts, (part) =>
      fire(part, event).pipe(
        Effect.catchIf(isOwnFault, () => fireEach(part, event)),
        Effect.tapError((error) => giveUp(part, event.now, error))
      )).pipe(
        Effect.tap(() =>
          Effect.sync(() => {
            relatedPart = Math.min(MAX_RELATED_PART, 2 * relatedPart)
            failures.clear()
          })
        ),
        Effect.map((results) => results.flat())
      )
  }

  const cancelPart = (jobs: ReadonlyArray<readonly [id: JobId, endpoint: EndpointId]>, now: number) =>
    db.alone("cancel children", async ({ lockRuns, work }): Promise<ReadonlyArray<ApplyResult>> => {
      const ids = jobs.map(([id]) => id)
      await lockRuns({ ends: ids })
      await work.query(`DELETE FROM stint.run_cancels WHERE job = ANY($1::text[])`, [ids])
      return jobs.flatMap(([id, endpoint]) => {
        const entry = work.find(endpoint, id)
        return entry === undefined ? [] : [work.apply(entry, { _tag: "Cancel", now, endpoint })]
      })
    })

  /** Cancels the remaining children of ended runs (RunLoads.ts). The end of a nested run may leave more of them. */
  const cancelChildren = Effect.fnUntraced(function*(now: number, limit: number) {
    const results: Array<ApplyResult> = []
    while (results.length < limit) {
      const rows = yield* db.read("tick", (query) => query(CANCELS, [db.unreadable.ids(now), CANCEL_PART]))
      if (rows.length === 0) break
      const jobs = rows.map((row) => decodeCancel(row))
      results.push(
        ...yield* Effect.catchIf(cancelPart(jobs, now), isOwnFault, () =>
          Effect.map(
            Effect.forEach(jobs, (job) =>
              Effect.catchIf(cancelPart([job], now), isOwnFault, (error) =>
                Effect.sync((): ReadonlyArray<ApplyResult> => {
                  db.unreadable.skip(job[0], now, error)
                  return []
                }))),
            (parts) =>
              parts.flat()
          ))
      )
    }
    return results.filter(({ _tag }) => _tag === "Changed")
  })

  /** The earliest time of the next timers. */
  const readNext = (now: number) =>
    db.read(
      "tick",
      async (query) => decodeNext((await query(NEXT_DUE, [now + AHEAD_MILLIS, db.unreadable.ids(now)]))[0])[0] ?? Infinity
    )

  const fireDue = Effect.fnUntraced(function*(event: Tick, limit: number) {
    const rows = yield* db.read("tick", (query) => query(DUE, [event.now, limit, db.unreadable.ids(event.now)]))
    const due = rows.map((row) => decodeDue(row))
    const idsOf = (related: boolean) => due.flatMap(([id, isRelated]) => isRelated === related ? [id] : [])
    const fired = new Map([...yield* fireOrdinary(idsOf(false), event), ...yield* fireRelated(idsOf(true), event)])
    const results = due.flatMap(([id]) => fired.get(id) ?? [])
    return due.length >= limit ? results : [...results, ...yield* cancelChildren(event.now, limit - due.length)]
  })

  return Effect.fnUntraced(function*(event, limit) {
    const { dueTimes } = db
    if (!dueTimes.mustAsk(event.now)) return []
    const next = yield* readNext(event.now)
    const results = next <= event.now ? yield* fireDue(event, limit) : []
    if (results.length < limit) dueTimes.asked(event.now, next)
    return results
  })
}

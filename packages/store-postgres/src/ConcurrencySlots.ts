/**
 * The slots of concurrency keys in a transaction: which jobs of a key are ready or running, and which are held (ConcurrencyRule.ts of
 * `@stint/store`).
 *
 * ```
 *   lock the keys  -->  count their slots, load the held jobs that may be released  -->  place and release, in memory
 * ```
 *
 * - The lock of a key is an advisory lock. It is taken after the locks on job rows, and held until the commit. Transactions that neither give nor take
 *   a slot, such as heartbeats and claims, do not take it.
 * - A held job is a row of `delayed` without `not_before`. The `seq` of a job with a slot is the turn of the slot, so that the index for claims also orders the keys; `jobs.seq` keeps the order of submission. A turn is greater than every position in that order.
 * - A transaction without keys executes none of these statements.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { asksForSlot, freesSlot, hasSlot, isAdmitted, releasable, RELEASE_LIMIT, withHeld } from "@stint/store/ConcurrencyRule"
import type { JobHead } from "@stint/store/JobRecord"
import * as Schema from "effect/Schema"
import type { Query, Row } from "./Connection.ts"
import { WITH_WEBHOOK_PAYLOADS } from "./JobColumns.ts"
import type { Entry } from "./JobEntry.ts"
import { escapeNul } from "./NulText.ts"
import type { TallyChanges } from "./TallyRows.ts"

const decodeCounts = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.Int]))
const decodeTurn = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int]))
const decodeLimit = Schema.decodeUnknownSync(Schema.Tuple([Schema.String, Schema.NullOr(Schema.Int)]))

/** The number of turns in one transaction. The turns of later transactions are greater. */
const TURNS = 4_096

/** A loaded key. */
interface KeyState {
  /** The number of ready and running jobs. */
  slots: number
  /** The held jobs that were loaded or are new. */
  readonly held: Set<Entry>
  /** The number of held jobs that were not loaded. A lower bound. */
  more: number
}

/** A key, and what a transaction may do with it. */
export interface WantedKey {
  readonly endpoint: EndpointId
  readonly key: string
  /** The number of jobs that may give or take a slot. */
  readonly jobs: number
  /** The highest limit that a command of the transaction may set. */
  readonly limit: number
}

/** The slots of the keys of one transaction. */
export interface ConcurrencySlots {
  readonly has: (endpoint: EndpointId, key: string) => boolean
  /** Records the limit of an endpoint's keys as it is stored; undefined: the endpoint never had one. */
  readonly knowLimit: (endpoint: EndpointId, limit: number | undefined) => void
  /** Changes the limit of an endpoint's keys. Undefined: it no longer has one. */
  readonly setLimit: (endpoint: EndpointId, limit: number | undefined) => void
  readonly limitOf: (endpoint: EndpointId) => number
  /** Begins to count the slots of a key. */
  readonly addKey: (endpoint: EndpointId, key: string, state: KeyState) => void
  /** The turns of this transaction begin here. */
  readonly setTurn: (first: number) => void
  /** Gives a job the slot that it needs, or holds it. `before` is undefined for a new job. */
  readonly place: (entry: Entry, before: JobHead | undefined, after: JobHead) => JobHead
  /** Releases held jobs with the key of a job that has freed its slot. Returns their number. */
  readonly release: (before: JobHead, after: JobHead, now: number) => number
  /** The statement that writes the changed limits. */
  readonly statements: () => ReadonlyArray<readonly [text: string, values: ReadonlyArray<unknown>]>
}

const nameOf = (endpoint: EndpointId, key: string): string => `${endpoint}\n${key}`

/** The name of a key's lock. */
export const slotLock = ({ endpoint, key }: Pick<WantedKey, "endpoint" | "key">): string => `slots\n${nameOf(endpoint, key)}`

const byRelease = (a: Entry, b: Entry): number => b.head.priority - a.head.priority || a.seq - b.seq

/** Starts a transaction without keys. */
export const make = (tallies: TallyChanges): ConcurrencySlots => {
  const keys = new Map<string, KeyState>()
  const limits = new Map<EndpointId, number>()
  const changed = new Map<EndpointId, number>()
  let turn: number | undefined
  let last = 0

  const stateOf = ({ concurrency, endpoint }: JobHead): KeyState => {
    const state = keys.get(nameOf(endpoint, concurrency?.key ?? ""))
    // The group commit then runs each command alone, with all keys that it needs.
    if (state === undefined) throw new Error(`a concurrency key of the endpoint ${endpoint} was not loaded`)
    return state
  }

  const heldOf = ({ held }: KeyState): ReadonlyArray<Entry> =>
    [...held].filter(({ head, removed }) => !removed && head.concurrency?.held === true).sort(byRelease)

  const limitOf = (endpoint: EndpointId): number => changed.get(endpoint) ?? limits.get(endpoint) ?? Infinity

  const setLimit: ConcurrencySlots["setLimit"] = (endpoint, limit) => {
    if (limitOf(endpoint) !== (limit ?? Infinity)) changed.set(endpoint, limit ?? Infinity)
  }

  const nextTurn = (): number => {
    if (turn === undefined) throw new Error("no turn was reserved for the slot of a job")
    last = Math.min(last + 1, TURNS - 1)
    return turn + last
  }

  return {
    has: (endpoint, key) => keys.has(nameOf(endpoint, key)),
    knowLimit: (endpoint, limit) => {
      if (limit !== undefined) limits.set(endpoint, limit)
    },
    setLimit,
    limitOf,
    addKey: (endpoint, key, state) => {
      keys.set(nameOf(endpoint, key), state)
    },
    setTurn: (first) => {
      turn ??= first
    },
    place: (entry, before, after) => {
      const { concurrency, endpoint } = after
      if (concurrency === null) return after
      if (before === undefined) setLimit(endpoint, concurrency.limit)
      if (!asksForSlot(before, after)) return withHeld(after, false)
      const state = stateOf(after)
      const held = heldOf(state).length + state.more
      const admitted = isAdmitted({ running: state.slots, ready: 0, held }, limitOf(endpoint))
      if (admitted) {
        state.slots += 1
        entry.turn = nextTurn()
      } else state.held.add(entry)
      return withHeld(after, !admitted)
    },
    release: (before, after, now) => {
      if (!freesSlot(before, after)) return 0
      const state = stateOf(after)
      state.slots -= 1
      const free = releasable({ running: state.slots, ready: 0 }, limitOf(after.endpoint))
      const released = heldOf(state).slice(0, free)
      if (released.length < free && state.more > 0) throw new Error("the held jobs of a concurrency key were not loaded")
      for (const entry of released) {
        const { head } = entry
        entry.head = { ...withHeld(head, false), queuedAt: now }
        entry.turn = nextTurn()
        state.slots += 1
        tallies.count(head, entry.head, 0)
      }
      return released.length
    },
    statements: () =>
      changed.size === 0 ? [] : [[
        `INSERT INTO stint.concurrency_limits (endpoint, max) SELECT * FROM unnest($1::text[], $2::int[])
         ON CONFLICT (endpoint) DO UPDATE SET max = excluded.max`,
        [
          [...changed.keys()].sort(),
          [...changed].sort(([a], [b]) => a < b ? -1 : 1).map(([, limit]) => limit === Infinity ? null : limit)
        ]
      ]]
  }
}

/** The position of a job in the table that holds its state. */
export const positionOf = ({ head, seq, turn }: Pick<Entry, "head" | "seq" | "turn">): number => hasSlot(head) ? turn : seq

/** Records the stored limits of endpoints. */
export const loadLimits = async (query: Query, slots: ConcurrencySlots, endpoints: ReadonlyArray<EndpointId>): Promise<void> => {
  if (endpoints.length === 0) return
  const rows = await query(`SELECT endpoint, max FROM stint.concurrency_limits WHERE endpoint = ANY($1::text[])`, [endpoints])
  const found = new Map(rows.map((row) => decodeLimit(row)))
  for (const endpoint of endpoints) {
    const limit = found.get(endpoint)
    slots.knowLimit(endpoint, limit === null ? Infinity : limit)
  }
}

const USAGE = `SELECT (
    (SELECT count(*) FROM stint.ready WHERE endpoint = $1 AND concurrency_key = $2) +
    (SELECT count(*) FROM stint.running WHERE endpoint = $1 AND concurrency_key = $2 AND not_before IS NULL)
  )::int, (
    SELECT count(*) FROM (SELECT 1 FROM stint.delayed WHERE endpoint = $1 AND concurrency_key = $2 AND held LIMIT $3) found
  )::int`

/** A held job that another transaction has locked is skipped and stays held, unless too few others would remain. */
const heldRows = (skip: string): string =>
  `WITH s AS MATERIALIZED (
     SELECT * FROM stint.delayed WHERE endpoint = $1 AND concurrency_key = $2 AND held AND id <> ALL($4::text[])
     ORDER BY priority DESC, seq LIMIT $3 FOR UPDATE${skip}
   ) SELECT ${WITH_WEBHOOK_PAYLOADS} FROM s JOIN stint.jobs j ON j.id = s.id`

const FREE_HELD = heldRows(" SKIP LOCKED")
const ALL_HELD = heldRows("")

/** Loads keys, while their locks are held. */
export const load = async (
  query: Query,
  slots: ConcurrencySlots,
  wanted: ReadonlyArray<WantedKey>,
  add: (row: Row) => Entry
): Promise<void> => {
  const [turns] = await Promise.all([
    query(`SELECT nextval('stint.slot_no')`),
    loadLimits(query, slots, [...new Set(wanted.map(({ endpoint }) => endpoint))])
  ])
  if (turns[0] !== undefined) slots.setTurn(decodeTurn(turns[0])[0] * TURNS)
  await Promise.all(wanted.map(async ({ endpoint, jobs, key, limit }) => {
    const most = jobs * (RELEASE_LIMIT + 1)
    const name = escapeNul(key)
    const [counts] = await query(USAGE, [endpoint, name, most + 1])
    const [used, held] = counts === undefined ? [0, 0] : decodeCounts(counts)
    const free = Math.max(0, Math.max(limit, slots.limitOf(endpoint) === Infinity ? most : slots.limitOf(endpoint)) - used)
    const count = Math.min(held, most, free + jobs)
    const rows = count === 0 ? [] : await query(FREE_HELD, [endpoint, name, count, []])
    const others = rows.length === count
      ? []
      : await query(ALL_HELD, [endpoint, name, count - rows.length, rows.map(([id]) => id)])
    const found = [...rows, ...others]
    slots.addKey(endpoint, key, {
      slots: used,
      held: new Set(found.map(add)),
      more: found.length < count ? 0 : held - count
    })
  }))
}

/** The slots of a held job's key, and the held jobs before it. `$3`: the maximum count. */
export const KEY_USAGE = `SELECT
    (SELECT count(*) FROM stint.running s
     WHERE s.endpoint = d.endpoint AND s.concurrency_key = d.concurrency_key AND s.not_before IS NULL)::int,
    (SELECT count(*) FROM stint.ready s WHERE s.endpoint = d.endpoint AND s.concurrency_key = d.concurrency_key)::int,
    (SELECT count(*) FROM (
       SELECT 1 FROM stint.delayed s WHERE s.endpoint = d.endpoint AND s.concurrency_key = d.concurrency_key AND s.held
         AND s.priority >= d.priority AND (s.priority > d.priority OR s.seq < d.seq) LIMIT $3
     ) found)::int
  FROM stint.delayed d WHERE d.id = $1 AND d.endpoint = $2 AND d.held`

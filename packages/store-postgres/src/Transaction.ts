/**
 * One transaction on jobs and batches: locks and loads rows for {@link Work}.
 *
 * Every transaction locks in the same order, so that transactions of different nodes wait for each other but do not deadlock: advisory locks by
 * number, then schedules, then the four tables of states, then batches, then concurrency keys; rows by id. A claim never waits (`SKIP LOCKED`).
 * Within the four tables, runs of pipelines and their children have their own order (RunLoads.ts).
 */
import { type EndpointId, JobId } from "@stint/contract/Ids"
import { isReady } from "@stint/store/JobMachine"
import type { JobHead, JobRecord } from "@stint/store/JobRecord"
import type { SubmissionKey } from "@stint/store/JobStore"
import { NO_OWNER } from "@stint/store/Owner"
import type { Quotas, QuotaScope, QuotaUsage } from "@stint/store/Quota"
import { isChild } from "@stint/store/RunTransactions"
import { hash } from "node:crypto"
import { toBatch } from "./BatchRows.ts"
import type * as ClaimCursors from "./ClaimCursors.ts"
import * as ConcurrencySlots from "./ConcurrencySlots.ts"
import type { Connection, Row } from "./Connection.ts"
import type * as DeadRows from "./DeadRows.ts"
import type * as DueTimes from "./DueTimes.ts"
import {
  fromAllStateTables,
  RECORD,
  STATE_TABLES,
  type StateTable,
  toRecord,
  toStateRow,
  WITH_WEBHOOK_PAYLOADS
} from "./JobColumns.ts"
import * as JobEntry from "./JobEntry.ts"
import * as ReadyRows from "./ReadyRows.ts"
import * as RunLoads from "./RunLoads.ts"
import * as ScheduleWork from "./ScheduleWork.ts"
import * as TallyRows from "./TallyRows.ts"
import type * as Unreadable from "./UnreadableRows.ts"
import * as Work from "./Work.ts"

/** A job that a command may insert. */
export interface Insertion {
  readonly job: JobRecord
  readonly key: SubmissionKey | undefined
  readonly quotas: Quotas | undefined
}

/** The worker of an endpoint. */
export interface WorkerOf {
  readonly endpoint: EndpointId
  readonly worker: string
}

/** What commands of the transaction need. */
export interface Needs extends RunLoads.RunNeeds {
  /** The number of characters that the command stores. Default: 0. */
  readonly characters?: number
  /** Jobs that no command ends, cancels or retries. A job that is also in `ends` is not needed here. */
  readonly jobs?: ReadonlyArray<JobId>
  readonly workers?: ReadonlyArray<WorkerOf>
  /** Whether the event may end jobs of `workers`, or return them to the queue. */
  readonly freesSlots?: boolean
  readonly insertions?: ReadonlyArray<Insertion>
  readonly claims?: ReadonlyArray<
    {
      readonly endpoint: EndpointId
      readonly limit: number
      readonly event: { readonly now: number; readonly keyLimit?: number | undefined }
    }
  >
}

/** The job of an idempotency key. */
interface Keyed {
  readonly owner: string
  readonly id: JobId
  readonly fingerprint: string
}

/** What a node knows of the rows from earlier transactions. */
export interface Known {
  readonly unreadable: Unreadable.UnreadableRows
  readonly deadRows: DeadRows.DeadRows
  readonly dueTimes: DueTimes.DueTimes
  readonly cursors: ClaimCursors.ClaimCursors
}

/** A transaction with its loaded rows. */
export interface Transaction {
  readonly work: Work.Work
  /** Loads what commands need, in one round trip. */
  readonly prepare: (needs: ReadonlyArray<Needs>) => Promise<void>
  /** Locks jobs, in whichever tables they are. */
  readonly lockJobs: (ids: ReadonlyArray<JobId>) => Promise<void>
  /** Locks jobs and loads their runs, for commands that may end, cancel or retry them. */
  readonly lockRuns: (needs: RunLoads.RunNeeds) => Promise<void>
  /** Loads rows of a query that selects {@link WITH_WEBHOOK_PAYLOADS} or {@link RECORD}, and locks their batches. */
  readonly load: (rows: Promise<ReadonlyArray<Row>>) => Promise<ReadonlyArray<JobEntry.Entry>>
  readonly lockBatches: (ids: ReadonlyArray<string>) => Promise<void>
  /** Locks and loads the concurrency keys of all loaded jobs, and of jobs that will be inserted. After all other locks. */
  readonly lockSlots: (insertions?: ReadonlyArray<JobHead>) => Promise<void>
  /** Waits until no other transaction has these locks, and holds them until the commit. */
  readonly lockNames: (names: ReadonlyArray<string>, shared?: "shared") => Promise<void>
  readonly isRemoved: (endpoint: EndpointId) => boolean
  /** The job of an idempotency key: that of the owner, or else one without an owner. Includes its record if it was stored before. */
  readonly ofKey: (
    endpoint: EndpointId,
    key: SubmissionKey
  ) => { readonly fingerprint: string; readonly job: JobRecord } | undefined
  /** What an endpoint or a key uses, with the changes of this transaction. */
  readonly usageOf: (scope: QuotaScope, id: string) => QuotaUsage
  /** Loads what {@link usageOf} and {@link isRemoved} need for an insertion that was not planned. */
  readonly admit: (endpoint: EndpointId, owner: string, quotas: Quotas | undefined, seqs: number) => Promise<void>
  /**
   * Locks further ready jobs of an endpoint, in claim order, and their batches. Returns the number of jobs. `shared`: only those that are not isolated.
   * `waiting`: also those that another transaction has locked, after its end.
   */
  readonly lockReady: (endpoint: EndpointId, limit: number, now: number, only?: "shared" | "waiting") => Promise<number>
  /** The ids of unreadable rows, which claims and timers skip. */
  readonly unreadable: Unreadable.UnreadableRows
  /** Whether the transaction has only one command. */
  readonly isAlone: boolean
  /** Endpoints that have isolated jobs. */
  readonly isolated: ReadonlySet<string>
  /** The last loaded ready job of each endpoint that may have further ready jobs. */
  readonly lastReady: Map<EndpointId, JobEntry.Entry>
}

/** The number of an advisory lock: 63 bits of a hash. */
export const lockNumber = (name: string): bigint => BigInt.asIntN(64, BigInt(`0x${hash("sha256", name, "hex").slice(0, 16)}`))

const bySize = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0)

/** The name of the lock that keeps an endpoint from being removed while jobs are inserted. */
export const endpointLock = (endpoint: string): string => `endpoint\n${endpoint}`

const keyLock = (endpoint: string, key: string): string => `key\n${endpoint}\n${key}`
const quotaLock = ([scope, id]: readonly [QuotaScope, string]): string => `quota\n${scope}\n${id}`

/**
 * The hot tables are often empty when statistics are collected, so the planner would scan them sequentially after they have grown. For the remaining
 * sequential scan (the timers of running jobs), the planner assumes a very high cost, and PostgreSQL would JIT-compile the statement, which takes a
 * second.
 */
const BEGIN = [
  "enable_seqscan = off",
  "enable_hashjoin = off",
  "enable_mergejoin = off",
  "jit = off",
  "plan_cache_mode = force_generic_plan"
]
  .reduce((text, setting) => `${text}; SET LOCAL ${setting}`, "BEGIN")

const lockedState = (place: StateTable) =>
  `SELECT ${WITH_WEBHOOK_PAYLOADS} FROM stint.${place} s JOIN stint.jobs j ON j.id = s.id WHERE s.id = ANY($1::text[]) ORDER BY s.id FOR UPDATE OF s`

/** Like {@link lockedState} for running jobs, plus those of workers: one statement, so that all rows are locked in the order of their ids. */
const RUNNING = `SELECT ${WITH_WEBHOOK_PAYLOADS} FROM stint.running s JOIN stint.jobs j ON j.id = s.id
  WHERE s.id IN (
    SELECT unnest($1::text[])
    UNION SELECT r.id FROM unnest($2::text[], $3::text[]) AS u (endpoint, worker)
      JOIN stint.running r ON r.endpoint = u.endpoint AND r.worker = u.worker
  ) ORDER BY s.id FOR UPDATE OF s`

/** How often to search again for a job that moves between the tables. */
const MAX_LOOKS = 20

const hasLimit = (quotas: Quotas | undefined, scope: QuotaScope): boolean =>
  quotas?.[scope].storedBytes !== undefined || quotas?.[scope].waitingJobs !== undefined

/** Begins a transaction on a connection. The caller commits it (TransactionWrites.ts) or rolls it back. */
export const begin = (
  connection: Connection,
  tallies: TallyRows.TallyChanges,
  { cursors, deadRows, unreadable }: Known,
  isAlone: boolean
): Transaction => {
  const { query } = connection
  // A failure also fails every later statement of the transaction, whose promises the callers wait for.
  connection.execute(BEGIN).catch(() => {})
  const seqs: Array<number> = []
  const work = Work.make(query, tallies, {
    next: () => {
      const value = seqs.shift()
      return value === undefined ? { done: true, value: undefined } : { value }
    }
  })
  const removed = new Set<string>()
  const isolated = new Set<string>()
  const keyed = new Map<string, Array<Keyed>>()
  const records = new Map<JobId, JobRecord>()
  const usage = new Map<string, QuotaUsage>()
  const lastReady = new Map<EndpointId, JobEntry.Entry>()
  const runs = RunLoads.make(query, work.runWork, (job) => (work.entries.get(job)?.head.batchId ?? null) !== null)

  const lockNames: Transaction["lockNames"] = async (names, shared) => {
    if (names.length === 0) return
    const numbers = [...new Set(names.map(lockNumber))].sort(bySize)
    await query(`SELECT pg_advisory_xact_lock${shared === undefined ? "" : "_shared"}(n) FROM unnest($1::bigint[]) AS n`, [
      numbers
    ])
  }

  const lockBatches: Transaction["lockBatches"] = async (ids) => {
    const unknown = ids.filter((id) => !work.batches.has(id) && !work.absentBatches.has(id))
    if (unknown.length === 0) return
    const rows = await query(`SELECT body FROM stint.batches WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE`, [unknown])
    for (const row of rows) work.addBatch(toBatch(row))
    for (const id of unknown) if (!work.batches.has(id)) work.absentBatches.add(id)
  }

  const lockBatchesOfJobs = () =>
    lockBatches([...new Set([...work.entries.values()].flatMap(({ head: { batchId } }) => batchId === null ? [] : [batchId]))])

  const addRows = (rows: ReadonlyArray<Row>) => rows.map((row) => work.add(toStateRow(row)))

  const load: Transaction["load"] = async (rows) => {
    const entries = addRows(await rows)
    await lockBatchesOfJobs()
    return entries
  }

  const sendJobLocks = (ids: ReadonlyArray<JobId>): Promise<ReadonlyArray<ReadonlyArray<Row>>> =>
    Promise.all(ids.length === 0 ? [] : STATE_TABLES.map((place) => query(lockedState(place), [ids])))

  /** A job can move into a table that was already read. Then it still exists but is in none of the results. */
  const lockMoved = async (ids: ReadonlyArray<JobId>) => {
    let missing = ids.filter((id) => !work.entries.has(id))
    for (let look = 0; missing.length > 0 && look < MAX_LOOKS; look++) {
      const existing = await query(`SELECT id FROM stint.jobs WHERE id = ANY($1::text[])`, [missing])
      const known = new Set(existing.map(([id]) => id))
      missing = missing.filter((id) => known.has(id))
      if (missing.length === 0) return
      for (const rows of await sendJobLocks(missing)) addRows(rows)
      missing = missing.filter((id) => !work.entries.has(id))
    }
  }

  const lockSent = async (ids: ReadonlyArray<JobId>, workers: ReadonlyArray<WorkerOf> = []) => {
    const values = [ids, workers.map(({ endpoint }) => endpoint), workers.map(({ worker }) => worker)]
    const found = workers.length === 0
      ? sendJobLocks(ids)
      : Promise.all([
        query(RUNNING, values),
        ...(ids.length === 0
          ? []
          : STATE_TABLES.filter((place) => place !== "running").map((place) => query(lockedState(place), [ids])))
      ])
    for (const rows of await found) addRows(rows)
    for (const id of ids) work.sought.add(id)
  }

  /** Without locks. A job that a worker claims later has a new lease. */
  const idsOfWorkers = async (workers: ReadonlyArray<WorkerOf>): Promise<ReadonlyArray<JobId>> => {
    if (workers.length === 0) return []
    const rows = await query(
      `SELECT r.id FROM unnest($1::text[], $2::text[]) AS u (endpoint, worker)
       JOIN stint.running r ON r.endpoint = u.endpoint AND r.worker = u.worker`,
      [workers.map(({ endpoint }) => endpoint), workers.map(({ worker }) => worker)]
    )
    return rows.map(([id]) => JobId.make(String(id)))
  }

  const lockRows = async (ids: ReadonlyArray<JobId>) => {
    const unknown = [...new Set(ids)].filter((id) => !work.sought.has(id))
    await lockSent(unknown)
    await lockMoved(unknown)
  }

  const lockJobs: Transaction["lockJobs"] = async (ids) => {
    await lockRows(ids)
    await lockBatchesOfJobs()
  }

  /** Called after `begin` of the runs has been sent. */
  const lockRunRows = async (needs: Required<RunLoads.RunNeeds>, others: ReadonlyArray<JobId>) => {
    await lockRows([...others, ...runs.roots(needs)].filter((id) => !isChild(id)))
    await runs.reload(needs)
    for (let roots = runs.roots(needs); roots.some((id) => !work.sought.has(id)); roots = runs.roots(needs)) {
      await lockRows(roots)
      await runs.reload(needs)
    }
    await lockRows([...others.filter(isChild), ...await runs.load(needs)])
    await lockBatchesOfJobs()
  }

  const lockRuns: Transaction["lockRuns"] = async (needs) => {
    const gathered = RunLoads.gather([needs])
    await runs.begin(gathered)
    await lockRunRows(gathered, gathered.ends)
    await lockSlots()
  }

  const lockReady = async (
    endpoint: EndpointId,
    limit: number,
    now: number,
    only?: "shared" | "waiting" | "cursor"
  ): Promise<number> => {
    const known = [...work.entries.values()].filter(({ head, input }) => head.endpoint === endpoint && input.input !== null)
    const values = [endpoint, limit, [...known.map(({ head }) => head.id), ...unreadable.ids(now)]]
    const place = only === "cursor" ? cursors.of(endpoint) : undefined
    const next = place === undefined ? [] : await query(ReadyRows.READY_FROM, [...values, place.priority, place.seq])
    const started = performance.now()
    const rows = next.length > 0 ? next : await query(ReadyRows.statementOf(only), values)
    const found = unreadable.readable(rows, now).map(work.add)
    for (const { head } of found) offered.add(head.id)
    if (only === "cursor" && deadRows.isMany("ready")) {
      const places = found.map((entry) => ({ priority: entry.head.priority, seq: ConcurrencySlots.positionOf(entry) }))
      cursors.found(endpoint, places, next.length > 0 ? undefined : performance.now() - started)
    }
    const last = found.at(-1)
    if (only !== "shared") {
      if (rows.length === limit && last !== undefined) lastReady.set(endpoint, last)
      else lastReady.delete(endpoint)
    }
    return rows.length
  }

  const loadUsage = async (scope: QuotaScope, id: string) => {
    usage.set(`${scope}\n${id}`, TallyRows.usageOf(await TallyRows.read(query, scope, id)))
  }

  const loadKeys = async (keys: ReadonlyArray<{ readonly endpoint: EndpointId; readonly key: string }>) => {
    if (keys.length === 0) return
    const rows = await query(
      `SELECT j.endpoint, j.idempotency_key, j.owner, j.id, j.fingerprint
       FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[])) AS u (endpoint, key)
       JOIN stint.jobs j ON j.endpoint = u.endpoint AND j.idempotency_key = u.key`,
      [keys.map(({ endpoint }) => endpoint), keys.map(({ key }) => key)]
    )
    if (rows.length === 0) return
    const found = await query(`SELECT ${RECORD} FROM ${fromAllStateTables("id = ANY($1::text[])")}`, [
      rows.map(([, , , id]) => id)
    ])
    for (const row of found) {
      const record = toRecord(toStateRow(row))
      records.set(record.id, record)
    }
    for (const [endpoint, key, owner, id, fingerprint] of rows) {
      const record = [...records.values()].find((one) => one.id === id)
      // The job was removed since, so the key is free.
      if (record === undefined) continue
      const name = keyLock(String(endpoint), String(key))
      keyed.set(name, [...(keyed.get(name) ?? []), { owner: String(owner), id: record.id, fingerprint: String(fingerprint) }])
    }
  }

  /** Jobs that claims have loaded. They keep their slots, unless they have expired. */
  const offered = new Set<JobId>()
  let keyLimits: ReadonlyMap<EndpointId, number> = new Map()

  const lockKeys = async (heads: ReadonlyArray<JobHead>) => {
    const wanted = new Map<string, ConcurrencySlots.WantedKey>()
    for (const { concurrency, endpoint } of heads) {
      if (concurrency === null || work.slots.has(endpoint, concurrency.key)) continue
      const { key, limit } = concurrency
      const name = ConcurrencySlots.slotLock({ endpoint, key })
      const known = wanted.get(name) ?? { endpoint, key, jobs: 0, limit: keyLimits.get(endpoint) ?? 0 }
      wanted.set(name, { ...known, jobs: known.jobs + 1, limit: Math.max(known.limit, limit) })
    }
    if (wanted.size === 0) return
    await lockNames([...wanted.keys()])
    await ConcurrencySlots.load(query, work.slots, [...wanted.values()], (row) => work.add(toStateRow(row)))
  }

  const headsOf = (matches: (entry: JobEntry.Entry) => boolean): ReadonlyArray<JobHead> =>
    [...work.entries.values()].filter((entry) => entry.head.concurrency !== null && matches(entry)).map(({ head }) => head)

  const lockSlots: Transaction["lockSlots"] = (insertions = []) =>
    lockKeys([...insertions, ...headsOf(({ head }) => !offered.has(head.id))])

  const lockExpired = (now: number) => lockKeys(headsOf(({ head }) => offered.has(head.id) && now >= head.expiresAt))

  const loadRemoved = async (endpoints: ReadonlyArray<string>) => {
    if (endpoints.length === 0) return
    const rows = await query(`SELECT id FROM stint.removed_endpoints WHERE id = ANY($1::text[])`, [endpoints])
    for (const [id] of rows) removed.add(String(id))
  }

  const reserve = async (count: number) => {
    if (count === 0) return
    const rows = await query(`SELECT nextval('stint.job_seq') FROM generate_series(1, $1)`, [count])
    seqs.push(...rows.map(([seq]) => Number(seq)))
  }

  const loadIsolated = async (endpoints: ReadonlyArray<string>) => {
    if (endpoints.length === 0) return
    const rows = await query(
      (["ready", "delayed", "running"] as const).map((place) =>
        `SELECT endpoint FROM stint.${place} WHERE isolated AND endpoint = ANY($1::text[])`
      ).join(" UNION "),
      [endpoints]
    )
    for (const [endpoint] of rows) isolated.add(String(endpoint))
  }

  const quotaScopes = (owner: string, endpoint: string, quotas: Quotas | undefined) =>
    ([["endpoint", endpoint], ["key", owner]] as const).filter(([scope]) => hasLimit(quotas, scope))

  const prepare: Transaction["prepare"] = async (needs) => {
    const related = RunLoads.gather(needs)
    const jobs = [...new Set([...needs.flatMap(({ jobs = [] }) => jobs), ...related.ends])]
    const workers = needs.flatMap(({ workers = [] }) => workers)
    const insertions = needs.flatMap(({ insertions = [] }) => insertions)
    const keys = insertions.flatMap(({ job: { endpoint }, key }) => key === undefined ? [] : [{ endpoint, key: key.key }])
    const scopes = new Map(
      insertions.flatMap(({ job, key, quotas }) =>
        quotaScopes(key?.owner ?? job.owner, job.endpoint, quotas).map((one) => [quotaLock(one), one] as const)
      )
    )
    const endpoints = [
      ...new Set([...insertions.map(({ job }) => job.endpoint), ...RunLoads.children(related).map(({ endpoint }) => endpoint)])
    ]
    const wanted = new Map<EndpointId, { readonly limit: number; readonly now: number }>()
    const claims = needs.flatMap(({ claims = [] }) => claims)
    for (const { endpoint, event: { now }, limit } of claims) {
      const known = wanted.get(endpoint)
      wanted.set(endpoint, { limit: (known?.limit ?? 0) + limit, now: Math.max(known?.now ?? 0, now) })
    }
    keyLimits = new Map(claims.map(({ endpoint, event: { keyLimit } }) => [endpoint, keyLimit ?? Infinity]))
    const locks = [
      ...keys.map(({ endpoint, key }) => keyLock(endpoint, key)),
      ...scopes.keys(),
      ...RunLoads.lockNames(related)
    ]
    const isRelated = RunLoads.isRelated(related)
    const first = () => [
      lockNames(locks),
      lockNames(endpoints.map(endpointLock), "shared"),
      reserve(insertions.length + RunLoads.insertionsOf(related)),
      loadRemoved(endpoints),
      loadKeys(keys),
      Promise.all([...scopes.values()].map(([scope, id]) => loadUsage(scope, id))),
      ScheduleWork.load(query, work.schedules, insertions.flatMap(({ key }) => key?.schedule ?? []))
    ]
    const last = () => [
      loadIsolated([...wanted.keys()]),
      ConcurrencySlots.loadLimits(query, work.slots, [...wanted.keys()]),
      // Runs last, because no command may wait for a lock that a claim holds.
      Promise.all([...wanted].map(([endpoint, { limit, now }]) => lockReady(endpoint, limit, now, "cursor"))),
      ...(wanted.size === 0 ? [] : [deadRows.count(query)])
    ]
    if (isRelated) {
      const [ofWorkers] = await Promise.all([idsOfWorkers(workers), ...first(), runs.begin(related)])
      await lockRunRows(related, [...jobs, ...ofWorkers])
      await Promise.all(last())
    } else {
      // Takes one round trip. Searches again for a job that has moved.
      await Promise.all([...first(), lockSent(jobs, workers), ...last()])
      await lockMoved(jobs)
    }
    // Comes before batches, because it locks the children of the run and then the batches.
    if (!isRelated && isAlone && related.ends.some((id) => work.entries.get(id)?.isRun === true)) await lockRuns(related)
    else await lockBatchesOfJobs()
    const ends = new Set<JobId>(related.ends)
    const isAny = isRelated || needs.some(({ freesSlots }) => freesSlots === true)
    await lockKeys([
      ...insertions.map(({ job }) => job),
      ...RunLoads.children(related),
      ...headsOf(({ head }) =>
        ends.has(head.id) ||
        (offered.has(head.id) ? (wanted.get(head.endpoint)?.now ?? 0) >= head.expiresAt : isAny)
      )
    ])
  }

  return {
    work,
    prepare,
    lockJobs,
    lockRuns,
    load,
    lockBatches,
    lockNames,
    lockSlots,
    lockReady: async (...args) => {
      const count = await lockReady(...args)
      await lockBatchesOfJobs()
      await lockExpired(args[2])
      return count
    },
    unreadable,
    isAlone,
    isolated,
    lastReady,
    isRemoved: (endpoint) => removed.has(endpoint),
    ofKey: (endpoint, { key, owner }) => {
      const own = [...work.entries.values()].filter((entry) =>
        !entry.removed && entry.head.endpoint === endpoint && entry.key?.key === key
      )
      const inserted = own.find((entry) => entry.head.owner === owner) ?? own.find((entry) => entry.head.owner === NO_OWNER)
      const stored = keyed.get(keyLock(endpoint, key)) ?? []
      const found = stored.find((one) => one.owner === owner) ?? stored.find((one) => one.owner === NO_OWNER)
      if (inserted !== undefined && (found === undefined || inserted.head.owner === owner)) {
        return { fingerprint: inserted.key?.fingerprint ?? "", job: JobEntry.recordOf(inserted) }
      }
      const job = found === undefined ? undefined : records.get(found.id)
      return found === undefined || job === undefined ? undefined : { fingerprint: found.fingerprint, job }
    },
    usageOf: (scope, id) => {
      const base = usage.get(`${scope}\n${id}`) ?? { waiting: 0, bytes: 0 }
      const changed = TallyRows.usageOf(work.tallies.of(scope, id))
      return { waiting: base.waiting + changed.waiting, bytes: base.bytes + changed.bytes }
    },
    admit: async (endpoint, owner, quotas, count) => {
      const scopes = quotaScopes(owner, endpoint, quotas)
      await Promise.all([
        lockNames(scopes.map(quotaLock)),
        lockNames([endpointLock(endpoint)], "shared"),
        reserve(count),
        loadRemoved([endpoint]),
        ...scopes.map(([scope, id]) => loadUsage(scope, id))
      ])
    }
  }
}

/**
 * The loaded ready jobs of an endpoint in claim order, up to the position after which unloaded ones may exist. `all`: all of them. Excludes expired
 * runs and children: their ends change other jobs, so their timers end them.
 */
export const readyEntries = (
  { lastReady, work }: Transaction,
  endpoint: EndpointId,
  now: number,
  all?: "all"
): ReadonlyArray<JobEntry.Entry> => {
  const last = all === undefined ? lastReady.get(endpoint) : undefined
  return [...work.entries.values()]
    .filter((entry) => {
      const { head, input, removed } = entry
      return !removed && head.endpoint === endpoint && isReady(head) && input.input !== null &&
        !(now >= head.expiresAt && JobEntry.isFamily(entry))
    })
    .sort(inClaimOrder)
    .filter((entry) => last === undefined || inClaimOrder(entry, last) <= 0)
}

const inClaimOrder = (a: JobEntry.Entry, b: JobEntry.Entry): number =>
  b.head.priority - a.head.priority || ConcurrencySlots.positionOf(a) - ConcurrencySlots.positionOf(b)

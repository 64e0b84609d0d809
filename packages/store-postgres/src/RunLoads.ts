/**
 * Locks and loads the runs that a transaction changes, with the jobs around them.
 *
 * ```
 *   a child ends       child, run                 its entry, the wake
 *   a run ends         run, children, their runs  cancels, and their entries
 *   a worker writes    run, children              entries, new children, park
 *   an event arrives   run                        its entry, the wake
 * ```
 *
 * **Locks.** Every transaction that may do one of these takes its locks in this order, so that the transactions of several nodes do not deadlock:
 *
 * 1. advisory locks: an endpoint's events, then a name and key of events. So an event and a wait for it cannot miss each other.
 * 2. jobs without a parent. The job at the top of nested runs (`root`) is the lock for all rows of these runs, which are read only after it is locked.
 * 3. child jobs, which the rows of the runs name.
 * 4. batches.
 *
 * A command that cannot end a job, such as a heartbeat, locks only the job. A claim never waits, and leaves expired children and runs to the timers,
 * which follow the order above.
 */
import { type EndpointId, JobId } from "@stint/contract/Ids"
import type { JobRecord } from "@stint/store/JobRecord"
import { CANCEL_PATH, memberOf, type RunEntry } from "@stint/store/RunMachine"
import { type JournalWrite, MAX_PAGE_CHARACTERS, type RunEvent } from "@stint/store/RunStore"
import { isChild, MAX_PAGE_ENTRIES } from "@stint/store/RunTransactions"
import type { Query, Row } from "./Connection.ts"
import { escapeNul } from "./NulText.ts"
import {
  CHILD,
  ENTRY,
  listOf,
  RUN,
  toChild,
  toEntry,
  toEvent,
  toGraph,
  toKept,
  toRun,
  toTime,
  toUnseen,
  toWait
} from "./RunRows.ts"
import { definitionKey, eventKey, type RunWork } from "./RunWork.ts"

/** What commands do with runs. */
export interface RunNeeds {
  /** Jobs that may end, or be cancelled or retried. */
  readonly ends?: ReadonlyArray<JobId>
  /** Runs whose entries are all needed. */
  readonly whole?: ReadonlyArray<JobId>
  /** Runs that may wake, and the paths that may be settled. */
  readonly arrivals?: ReadonlyArray<{ readonly run: JobId; readonly path?: string }>
  readonly journals?: ReadonlyArray<{ readonly endpoint: EndpointId; readonly write: JournalWrite; readonly now: number }>
  readonly sends?: ReadonlyArray<{ readonly endpoint: EndpointId; readonly event: RunEvent; readonly now: number }>
}

/** All needs together. */
export const gather = (needs: ReadonlyArray<RunNeeds>): Required<RunNeeds> => ({
  ends: needs.flatMap(({ ends = [] }) => ends),
  whole: needs.flatMap(({ whole = [] }) => whole),
  arrivals: needs.flatMap(({ arrivals = [] }) => arrivals),
  journals: needs.flatMap(({ journals = [] }) => journals),
  sends: needs.flatMap(({ sends = [] }) => sends)
})

/** Whether a transaction must lock in the order of runs. Otherwise, one round trip is enough. */
export const isRelated = ({ arrivals, ends, journals, sends }: Required<RunNeeds>): boolean =>
  arrivals.length > 0 || journals.length > 0 || sends.length > 0 || ends.some(isChild)

/** The names of the locks of events. */
export const lockNames = ({ journals, sends }: Required<RunNeeds>): ReadonlyArray<string> => [
  ...sends.flatMap(({ endpoint, event: { key, name } }) => [`events\n${endpoint}`, `event\n${eventKey(endpoint, name, key)}`]),
  ...journals.flatMap(({ endpoint, write }) =>
    write.records.flatMap((record) => record.kind === "wait" ? [`event\n${eventKey(endpoint, record.name, record.key)}`] : [])
  )
]

/** The number of jobs that the writes may insert. */
export const insertionsOf = ({ journals }: Required<RunNeeds>): number =>
  journals.reduce((sum, { write: { records } }) => sum + records.filter(({ kind }) => kind === "spawn").length, 0)

/** The jobs that the writes may insert. */
export const children = ({ journals }: Required<RunNeeds>): ReadonlyArray<JobRecord> =>
  journals.flatMap(({ write: { records } }) =>
    records.flatMap((record) => record.kind === "spawn" && "endpoint" in record.child ? [record.child] : [])
  )

/** How many additional waits and events of a key are read, because another command of the transaction may use or close the first ones. */
const SPARE_ROWS = 8

/**
 * One transaction cancels at most this number of children, so that it ends within its time limit however many children an ended run and the
 * runs below it have. The timers cancel the others (PostgresJobStore.ts).
 */
export const MAX_CANCELS = 500

/** The maximum size of a page in bytes. A UTF-16 unit takes at most three bytes. */
const MAX_PAGE_BYTES = 3 * MAX_PAGE_CHARACTERS

const ENTRIES = listOf("e", ENTRY)

const PAGE = `SELECT ${ENTRIES} FROM (
    SELECT p.*, coalesce(sum(octet_length(p.body)) OVER (ORDER BY p.n ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING), 0) AS before
    FROM (SELECT * FROM stint.run_entries WHERE run = $1 AND n > $2 ORDER BY n LIMIT $3) p
  ) e WHERE e.before < $4 ORDER BY e.n`

/**
 * All entries, with the bodies that are needed: of an end (whether it failed), of a choice (which branch was taken), and of an open job (which job to
 * cancel).
 */
const WHOLE = `SELECT ${
  ENTRIES.replace("e.body", "CASE WHEN e.kind IN ('end', 'choice') OR (e.kind = 'spawn' AND e.open) THEN e.body END")
} FROM stint.run_entries e WHERE e.run = $1 ORDER BY e.n`

/** The child job of a `spawn` entry. */
const childOf = (entry: RunEntry): JobId | undefined => {
  const job = entry.kind === "spawn" && entry.isOpen ? memberOf(entry, "job") : undefined
  return job === undefined ? undefined : JobId.make(job)
}

/** Loaded entries and their runs. */
type Found = ReadonlyArray<readonly [run: JobId, entry: RunEntry]>

/** The sends by event key, and their number for each key. */
const groupSends = (sends: Required<RunNeeds>["sends"]) => {
  const groups = new Map<string, { readonly endpoint: EndpointId; readonly event: RunEvent; readonly count: number }>()
  for (const { endpoint, event } of sends) {
    const key = eventKey(endpoint, event.name, event.key)
    groups.set(key, { endpoint, event, count: (groups.get(key)?.count ?? 0) + 1 })
  }
  return groups
}

/** The waits in the writes by event key, with their number and the earliest time of their writes for each key. */
const groupWaits = (journals: Required<RunNeeds>["journals"]) => {
  const groups = new Map<
    string,
    { readonly endpoint: EndpointId; readonly name: string; readonly key: string; readonly now: number; readonly count: number }
  >()
  for (const { endpoint, now, write: { records } } of journals) {
    for (const record of records) {
      if (record.kind !== "wait") continue
      const { key, name } = record
      const id = eventKey(endpoint, name, key)
      const known = groups.get(id)
      groups.set(id, { endpoint, name, key, now: Math.min(known?.now ?? now, now), count: (known?.count ?? 0) + 1 })
    }
  }
  return groups
}

/** Loads rows of runs into a transaction. */
export interface RunLoads {
  /** Loads what does not depend on the rows of runs. Sent together with the advisory locks. */
  readonly begin: (needs: Required<RunNeeds>) => Promise<unknown>
  /** The jobs without a parent that must be locked before the rows of runs are read. */
  readonly roots: (needs: Required<RunNeeds>) => ReadonlyArray<JobId>
  /** Called while the known roots are locked. Reads the waits for events again, because a run may have stopped waiting. */
  readonly reload: (needs: Required<RunNeeds>) => Promise<void>
  /** Called while the roots are locked. Loads the rows of runs, and returns the child jobs that must be locked. */
  readonly load: (needs: Required<RunNeeds>) => Promise<ReadonlyArray<JobId>>
}

/** The loads of a transaction. `isBatched`: whether a locked job belongs to a batch, which may cancel it when it wakes. */
export const make = (query: Query, work: RunWork, isBatched: (job: JobId) => boolean): RunLoads => {
  const loadPlaces = async (jobs: ReadonlyArray<JobId>) => {
    const unknown = jobs.filter((job) => isChild(job) && !work.places.has(job))
    if (unknown.length === 0) return
    const rows = await query(
      `SELECT ${
        listOf("c", CHILD)
      }, r.endpoint FROM stint.run_children c JOIN stint.runs r ON r.run = c.run WHERE c.job = ANY($1::text[])`,
      [unknown]
    )
    for (const row of rows) {
      const { job, path, root, run } = toChild(row.slice(0, -1))
      // The row names the endpoint of the run, not that of the child.
      const { endpoint } = toChild([job, row.at(-1), run, path, root])
      work.places.set(job, { run, endpoint, path, root })
    }
    for (const job of unknown) if (!work.places.has(job)) work.places.set(job, undefined)
  }

  const rootOf = (job: JobId): JobId => work.places.get(job)?.root ?? job

  const loadRuns = async (runs: ReadonlyArray<JobId>) => {
    const unknown = [...new Set(runs)].filter((run) => !work.runs.has(run))
    if (unknown.length === 0) return
    const rows = await query(`SELECT ${listOf("r", RUN)} FROM stint.runs r WHERE r.run = ANY($1::text[])`, [unknown])
    for (const row of rows) {
      const { root, ...record } = toRun(row)
      work.addRun(record.run, root, record)
    }
    for (const run of unknown) work.addRun(run, rootOf(run), undefined)
  }

  const isRun = (job: JobId): boolean => work.runs.get(job)?.stored !== undefined

  const addEntries = (rows: ReadonlyArray<Row>): Found =>
    rows.map((row) => {
      const { entry, run } = toEntry(row)
      work.addEntry(run, entry)
      return [run, entry] as const
    })

  const loadPaths = async (paths: ReadonlyMap<JobId, ReadonlySet<string>>): Promise<Found> => {
    const pairs = [...paths].flatMap(([run, some]) => isRun(run) ? [...some].map((path) => [run, path] as const) : [])
    for (const [run, path] of pairs) work.runs.get(run)?.paths.add(path)
    return pairs.length === 0 ? [] : addEntries(
      await query(
        `SELECT ${ENTRIES} FROM unnest($1::text[], $2::text[]) AS u (run, path)
         JOIN stint.run_entries e ON e.run = u.run AND e.path = u.path`,
        [pairs.map(([run]) => run), pairs.map(([, path]) => path)]
      )
    )
  }

  /** What the end of a run changes: its open paths, and the path that records a cancel. */
  const loadOpen = async (runs: ReadonlyArray<JobId>): Promise<Found> => {
    const some = runs.filter((run) => isRun(run) && work.runs.get(run)?.isOpenLoaded === false)
    if (some.length === 0) return []
    for (const run of some) {
      const state = work.runs.get(run)
      if (state !== undefined) state.isOpenLoaded = true
    }
    const [rows] = await Promise.all([
      query(`SELECT ${ENTRIES} FROM stint.run_entries e WHERE e.run = ANY($1::text[]) AND e.open`, [some]),
      loadPaths(new Map(some.map((run) => [run, new Set([CANCEL_PATH])])))
    ])
    return addEntries(rows)
  }

  const loadDue = async (journals: Required<RunNeeds>["journals"]): Promise<Found> => {
    const some = journals.filter(({ write }) => isRun(write.run))
    if (some.length === 0) return []
    for (const { now, write } of some) {
      const state = work.runs.get(write.run)
      if (state !== undefined) state.dueUntil = Math.max(state.dueUntil, now)
    }
    return addEntries(
      await query(
        `SELECT ${ENTRIES} FROM unnest($1::text[], $2::bigint[]) AS u (run, now)
         JOIN stint.run_entries e ON e.run = u.run AND e.open AND e.until <= u.now`,
        [some.map(({ write }) => write.run), some.map(({ now }) => now)]
      )
    )
  }

  const loadPage = async (run: JobId, after: number) => {
    const rows = await query(PAGE, [run, after, MAX_PAGE_ENTRIES, MAX_PAGE_BYTES])
    work.runs.get(run)?.pages.set(after, rows.map((row) => toEntry(row).entry))
  }

  const loadUnseen = async (run: JobId, seen: number) => {
    const [row] = await query(
      `SELECT count(*)::int, max(e.news) FROM stint.run_entries e WHERE e.run = $1 AND e.n > $2 AND e.news > 0`,
      [run, seen]
    )
    if (row !== undefined) work.runs.get(run)?.unseen.set(seen, toUnseen(row))
  }

  const loadWhole = async (run: JobId) => {
    const rows = await query(WHOLE, [run])
    const state = work.runs.get(run)
    if (state !== undefined) state.whole = rows.map((row) => toEntry(row).entry)
  }

  const loadGraph = async (endpoint: EndpointId, hash: string) => {
    const [row] = await query(`SELECT graph FROM stint.definitions WHERE endpoint = $1 AND hash = $2`, [endpoint, hash])
    work.graphs.set(definitionKey(endpoint, hash), row === undefined ? undefined : toGraph(row))
  }

  const loadEvents = async (endpoint: EndpointId, name: string, key: string, now: number, limit: number) => {
    const rows = await query(
      `SELECT e.seq, e.expires_at, e.id IS NOT NULL, e.body FROM stint.run_events e
       WHERE e.endpoint = $1 AND e.name = $2 AND e.key = $3 AND e.body IS NOT NULL AND e.expires_at > $4 ORDER BY e.seq LIMIT $5`,
      [endpoint, escapeNul(name), escapeNul(key), now, limit]
    )
    work.events.set(
      eventKey(endpoint, name, key),
      rows.map(toEvent).map((event) => ({ body: event.body, expiresAt: event.expiresAt, origin: event }))
    )
  }

  /** The earliest timer of the entries that are not loaded. */
  const loadTimer = async (run: JobId) => {
    const state = work.runs.get(run)
    if (state === undefined) return
    if (state.isOpenLoaded) {
      state.otherTimer = null
      return
    }
    const [row] = await query(
      `SELECT min(e.until) FROM stint.run_entries e WHERE e.run = $1 AND e.open AND e.until IS NOT NULL AND e.n <> ALL($2::int[])`,
      [run, [...state.entries.keys()]]
    )
    state.otherTimer = row === undefined ? null : toTime(row)
  }

  const loadWaits = async (endpoint: EndpointId, name: string, key: string, limit: number) => {
    const rows = await query(
      `SELECT w.run, w.endpoint, w.path, w.at FROM stint.run_waits w
       WHERE w.endpoint = $1 AND w.name = $2 AND w.key = $3 ORDER BY w.at, w.run, w.path LIMIT $4`,
      [endpoint, escapeNul(name), escapeNul(key), limit]
    )
    const [id, found] = [eventKey(endpoint, name, key), rows.map(toWait)]
    const last = found.at(-1)
    if (last !== undefined && found.length === limit) work.lastWaits.set(id, last)
    else work.lastWaits.delete(id)
    work.waits.set(id, found)
  }

  /** The waits that the events of a transaction may settle: for each key, as many as there are events. */
  const eventPlaces = (sends: Required<RunNeeds>["sends"]) =>
    [...groupSends(sends)].flatMap(([key, { count }]) => (work.waits.get(key) ?? []).slice(0, count))

  const arrivalsOf = ({ arrivals, sends }: Required<RunNeeds>) => [...arrivals, ...eventPlaces(sends)]

  const loadWaitsOf = async ({ sends }: Required<RunNeeds>) => {
    if (sends.length === 0) return
    await Promise.all(
      [...groupSends(sends).values()].map(({ count, endpoint, event: { key, name } }) =>
        loadWaits(endpoint, name, key, count + SPARE_ROWS)
      )
    )
    await loadPlaces(eventPlaces(sends).map(({ run }) => run))
  }

  const loadSends = async ({ sends }: Required<RunNeeds>) => {
    if (sends.length === 0) return
    const named = sends.flatMap(({ endpoint, event: { id }, now }) => id === null ? [] : [{ endpoint, id, now }])
    const endpoints = new Map(sends.map(({ endpoint, now }) => [endpoint, now]))
    await Promise.all([
      ...named.map(async ({ endpoint, id, now }) => {
        const rows = await query(`SELECT 1 FROM stint.run_events e WHERE e.endpoint = $1 AND e.id = $2 AND e.expires_at > $3`, [
          endpoint,
          escapeNul(id),
          now
        ])
        work.eventIds.set(definitionKey(endpoint, id), rows.length > 0)
      }),
      ...[...endpoints].map(async ([endpoint, now]) => {
        const [row] = await query(
          `SELECT count(*)::int, coalesce(sum(octet_length(e.body)), 0)::bigint FROM stint.run_events e
           WHERE e.endpoint = $1 AND e.body IS NOT NULL AND e.expires_at > $2`,
          [endpoint, now]
        )
        if (row !== undefined) work.kept.set(endpoint, toKept(row))
      })
    ])
  }

  const begin: RunLoads["begin"] = (needs) => {
    const { arrivals, ends, journals } = needs
    const hashes = new Map(
      journals.flatMap(({ endpoint, write: { start } }) =>
        start === undefined ? [] : [[definitionKey(endpoint, start.definition), [endpoint, start.definition] as const] as const]
      )
    )
    return Promise.all([
      loadPlaces([...ends, ...journals.map(({ write }) => write.run), ...arrivals.map(({ run }) => run)]),
      loadWaitsOf(needs),
      loadSends(needs),
      ...[...hashes.values()].map(([endpoint, hash]) => loadGraph(endpoint, hash)),
      ...[...groupWaits(journals).values()].map(({ count, endpoint, key, name, now }) =>
        loadEvents(endpoint, name, key, now, count + SPARE_ROWS)
      )
    ])
  }

  const roots: RunLoads["roots"] = (needs) => [
    ...new Set(
      [
        ...needs.ends,
        ...needs.journals.map(({ write }) => write.run),
        ...arrivalsOf(needs).map(({ run }) => run)
      ].map(rootOf).filter((job) => !isChild(job))
    )
  ]

  /** The definition of a run, for commands that compare it. */
  const loadDefinitions = (needs: Required<RunNeeds>): Promise<unknown> => {
    const wanted = [
      ...needs.whole,
      ...needs.journals.flatMap(({ write: { run, start } }) =>
        start === undefined || work.runs.get(run)?.stored?.definition === start.definition ? [] : [run]
      )
    ]
    return Promise.all(
      [...new Set(wanted)].map(async (run) => {
        const stored = work.runs.get(run)?.stored
        if (stored !== undefined) await Promise.all([loadGraph(stored.endpoint, stored.definition), loadWhole(run)])
      })
    )
  }

  /** The children of a transaction's runs that may be cancelled, and the children of those that are runs. */
  const loadChildren = async (entries: Found): Promise<ReadonlyArray<JobId>> => {
    const jobs: Array<JobId> = []
    let count = 0
    let found = entries
    while (found.length > 0) {
      const children = found.flatMap(([run, entry]) => {
        const job = childOf(entry)
        const state = work.runs.get(run)
        if (job === undefined || state?.stored === undefined) return []
        if (count >= MAX_CANCELS) {
          work.postponed.add(job)
          return []
        }
        count += 1
        work.places.set(job, { run, endpoint: state.stored.endpoint, path: entry.path, root: state.root })
        return [job]
      })
      jobs.push(...children)
      await loadRuns(children)
      found = await loadOpen(children)
    }
    return jobs
  }

  const load: RunLoads["load"] = async (needs) => {
    const { ends, journals, whole } = needs
    const arrivals = arrivalsOf(needs)
    const ending = [...ends, ...journals.flatMap(({ write: { finish, run } }) => finish === undefined ? [] : [run])]
    const paths = new Map<JobId, Set<string>>()
    const need = (run: JobId, ...some: ReadonlyArray<string>) => {
      const known = paths.get(run) ?? new Set()
      paths.set(run, known)
      for (const path of some) known.add(path)
    }
    for (const { path, run } of [...ending.flatMap((job) => work.places.get(job) ?? []), ...arrivals]) {
      need(run, ...(path === undefined ? [] : [path]))
    }
    // A run that wakes while its batch is cancelled ends.
    const waking = [...paths.keys()].filter(isBatched)
    for (const { write: { records, run } } of journals) need(run, ...records.map(({ path }) => path))
    await loadRuns([...ending, ...paths.keys(), ...whole])

    const found = await Promise.all([
      loadPaths(paths),
      loadOpen([...ending, ...waking]),
      loadDue(journals),
      loadDefinitions(needs),
      ...journals.flatMap(({ write: { after, park, run } }) => {
        const seen = park === undefined ? [] : [park.seen]
        const first = [after ?? Infinity, ...seen].reduce((a, b) => Math.min(a, b))
        const pages = new Set([first, after ?? first].filter(Number.isFinite))
        return isRun(run) ? [...[...pages].map((page) => loadPage(run, page)), ...seen.map((n) => loadUnseen(run, n))] : []
      })
    ]).then(([ofPaths, ofOpen, ofDue]) => [...ofPaths, ...ofOpen, ...ofDue])
    const children = await loadChildren(found)
    await Promise.all(journals.map(({ write }) => loadTimer(write.run)))
    const spawned = journals.flatMap(({ write: { records } }) =>
      records.flatMap((record) => record.kind === "spawn" && "id" in record.child ? [record.child.id] : [])
    )
    return [...ends, ...paths.keys(), ...children, ...spawned].filter(isChild)
  }

  return { begin, reload: loadWaitsOf, roots, load }
}

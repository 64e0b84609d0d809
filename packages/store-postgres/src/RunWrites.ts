/**
 * The statements that write the changes to runs, in the order in which they must be sent: what is removed comes before what is added.
 */
import type { JobId } from "@stint/contract/Ids"
import { insertAll, transpose } from "./JobColumns.ts"
import { escapeNul } from "./NulText.ts"
import { CHILD, ENTRY, entryValues, EVENT, RUN, runValues, WAIT } from "./RunRows.ts"
import type { RunState, RunWork } from "./RunWork.ts"

/** A statement and its values. */
type Statement = readonly [text: string, values: ReadonlyArray<unknown>]

const pairs = (rows: ReadonlyArray<readonly [unknown, unknown]>): ReadonlyArray<unknown> => [
  rows.map(([first]) => first),
  rows.map(([, second]) => second)
]

/**
 * The ended children of removed runs become due, because they were kept only as long as their run. This is the only change to a job's settings. The
 * pattern is exact, because the members before `retentionMs` are numbers.
 */
const RELEASED = `SELECT job FROM stint.run_children WHERE run = ANY($1::text[])`
const RELEASE_ROWS = `UPDATE stint.ended SET due_at = finished_at WHERE id IN (${RELEASED})`
const RELEASE_SPECS =
  `UPDATE stint.jobs SET spec = regexp_replace(spec, '"retentionMs":[0-9]+', '"retentionMs":0') WHERE id IN (${RELEASED})`

const removal = (runs: ReadonlyArray<JobId>): ReadonlyArray<Statement> =>
  runs.length === 0 ? [] : [
    [RELEASE_ROWS, [runs]],
    [RELEASE_SPECS, [runs]],
    ...["run_children", "run_waits", "run_entries", "runs"].map((table): Statement => [
      `DELETE FROM stint.${table} WHERE run = ANY($1::text[])`,
      [runs]
    ])
  ]

/** Skips rows that another transaction is removing. */
const EXPIRE = `WITH expired AS MATERIALIZED (
    SELECT seq FROM stint.run_events WHERE expires_at <= $1 FOR UPDATE SKIP LOCKED
  ) DELETE FROM stint.run_events e USING expired WHERE e.seq = expired.seq`

/** Rows for one `INSERT`. */
const insertion = (
  table: string,
  columns: Readonly<Record<string, string>>,
  rows: ReadonlyArray<ReadonlyArray<unknown>>
): ReadonlyArray<Statement> => rows.length === 0 ? [] : [[insertAll(table, columns), transpose(rows)]]

const changedEntries = (runs: ReadonlyArray<readonly [JobId, RunState]>) => {
  const forgotten: Array<readonly [JobId, number]> = []
  const closed: Array<readonly [JobId, number]> = []
  const added: Array<ReadonlyArray<unknown>> = []
  for (const [run, state] of runs) {
    for (const n of state.forgotten) forgotten.push([run, n])
    for (const { entry, stored } of state.entries.values()) {
      if (stored === undefined) added.push(entryValues(run, entry))
      else if (stored.isOpen && !entry.isOpen) closed.push([run, entry.n])
    }
  }
  return { forgotten, closed, added }
}

/** The statements for the changes of a transaction. */
export const statementsOf = ({ changes, runs }: RunWork): ReadonlyArray<Statement> => {
  const kept = [...runs].filter(([, { isRemoved }]) => !isRemoved)
  const removed = [...runs].flatMap(([run, { isRemoved, stored }]) => isRemoved && stored !== undefined ? [run] : [])
  const records = kept.flatMap(([, { record, root, stored }]) =>
    record === undefined || record === stored ? [] : [{ values: runValues(record, root), isNew: stored === undefined }]
  )
  const { added, closed, forgotten } = changedEntries(kept)
  const { cancels, children, closedWaits, definitions, events, expiredAt, takenEvents, waits } = changes
  const [known, unknown] = [takenEvents.filter(({ hasId }) => hasId), takenEvents.filter(({ hasId }) => !hasId)]
  const statements: ReadonlyArray<Statement | undefined> = [
    ...removal(removed),
    forgotten.length === 0 ? undefined : [
      `DELETE FROM stint.run_entries e USING unnest($1::text[], $2::int[]) AS u (run, n) WHERE e.run = u.run AND e.n = u.n`,
      pairs(forgotten)
    ],
    closed.length === 0 ? undefined : [
      `UPDATE stint.run_entries e SET open = false FROM unnest($1::text[], $2::int[]) AS u (run, n) WHERE e.run = u.run AND e.n = u.n`,
      pairs(closed)
    ],
    closedWaits.length === 0 ? undefined : [
      `DELETE FROM stint.run_waits w USING unnest($1::text[], $2::text[]) AS u (run, path) WHERE w.run = u.run AND w.path = u.path`,
      pairs(closedWaits)
    ],
    expiredAt === null ? undefined : [EXPIRE, [expiredAt]],
    known.length === 0 ? undefined : [`UPDATE stint.run_events SET body = NULL WHERE seq = ANY($1::bigint[])`, [
      known.map(({ seq }) => seq)
    ]],
    unknown.length === 0 ? undefined : [`DELETE FROM stint.run_events WHERE seq = ANY($1::bigint[])`, [
      unknown.map(({ seq }) => seq)
    ]],
    ...insertion("runs", RUN, records.filter(({ isNew }) => isNew).map(({ values }) => values)),
    ...update(records.filter(({ isNew }) => !isNew).map(({ values }) => values)),
    ...insertion("run_entries", ENTRY, added),
    ...insertion(
      "run_children",
      CHILD,
      children.map(([job, endpoint, { path, root, run }]) => [job, endpoint, run, path, root])
    ),
    ...insertion(
      "run_waits",
      WAIT,
      waits.map(({ at, endpoint, key, name, path, run }) => [endpoint, escapeNul(name), escapeNul(key), at, run, path])
    ),
    ...insertion(
      "run_events",
      EVENT,
      events.map(({ endpoint, event: { body, expiresAt, id, key, name }, isDelivered }) => [
        endpoint,
        escapeNul(name),
        escapeNul(key),
        escapeNul(id),
        expiresAt,
        isDelivered ? null : body
      ])
    ),
    cancels.length === 0 ? undefined : [
      `INSERT INTO stint.run_cancels (job, endpoint) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING`,
      pairs(cancels)
    ],
    ...definitions.map((values): Statement => [
      `INSERT INTO stint.definitions (endpoint, hash, graph, at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
      values
    ])
  ]
  return statements.filter((statement) => statement !== undefined)
}

const update = (rows: ReadonlyArray<ReadonlyArray<unknown>>): ReadonlyArray<Statement> =>
  rows.length === 0 ? [] : [[
    `UPDATE stint.runs r SET definition = u.definition, phase = u.phase, undo = u.undo, last = u.last, wanted = u.wanted, held = u.held
     FROM unnest(${Object.values(RUN).map((type, at) => `$${at + 1}::${type}[]`).join(", ")})
       AS u (${Object.keys(RUN).join(", ")}) WHERE r.run = u.run`,
    transpose(rows)
  ]]

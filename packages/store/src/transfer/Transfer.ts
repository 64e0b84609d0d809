/**
 * Makes the tables of one store equal to those of another, and proves it.
 *
 * ```
 *   for each table, page by page in the order of its key:
 *     read a page of the source  -->  read the rows of the target in the same range of keys  -->  write the differences, in one transaction
 *   if anything was written, read the table of both again: a difference is now a failure
 * ```
 *
 * An interrupted copy therefore continues where it stopped, a repeated copy writes only what has changed since, and a copy without
 * differences is its own verification. The rows of both sides are decoded, counted, and digested (SHA-256) in the same way.
 */
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import { type StoredRow, type StoredTable, TABLES } from "./StoredTables.ts"
import { RowsDiffer, RowUnreadable, TransferError } from "./TransferError.ts"

/** The store to read. It must not change meanwhile. */
export interface TransferSource {
  /** The rows of a table, in the order of its key. Throws when a row cannot be read. */
  readonly rows: (table: StoredTable) => Iterable<StoredRow>
  /** The number of stored rows, including those that {@link rows} leaves out because they belong to nothing. */
  readonly count: (table: StoredTable) => number
}

/** A range of keys: after `after`, up to and including `last`. Undefined: no such bound. */
export interface KeyRange {
  readonly after: StoredRow | undefined
  readonly last: StoredRow | undefined
}

/** The store to write. */
export interface TransferTarget {
  /** The keys of the first rows of a range. */
  readonly keys: (table: StoredTable, range: KeyRange, limit: number) => Effect.Effect<ReadonlyArray<StoredRow>, TransferError>
  /** The first rows of a range, in the order of the key. */
  readonly rows: (table: StoredTable, range: KeyRange, limit: number) => Effect.Effect<ReadonlyArray<StoredRow>, TransferError>
  /** Removes rows by their keys and then adds rows, in one transaction. */
  readonly replace: (
    table: StoredTable,
    removed: ReadonlyArray<StoredRow>,
    added: ReadonlyArray<StoredRow>
  ) => Effect.Effect<void, TransferError>
}

/** A table that is equal on both sides. */
export interface TransferredTable {
  readonly table: string
  readonly rows: number
  /** The SHA-256 of the rows, in hexadecimal digits. */
  readonly digest: string
  /** The number of rows that were written or removed. */
  readonly changed: number
  /** The number of rows of the source that belong to nothing, such as a chunk without its job, and were not copied. */
  readonly orphans: number
}

/** What a copy is doing. */
export interface TransferState {
  readonly table: string
  readonly step: "copy" | "compare"
  readonly rows: number
  readonly total: number
}

const PAGE_ROWS = 500

/** The size at which a page ends. A page has at least one row, of any size. Characters. */
const PAGE_SIZE = 4_194_304

/** The number of rows that are read from the target at once. Greater than the number of rows in a page, so that surplus rows are found, too. */
const FOUND_ROWS = 2 * PAGE_ROWS

/** A row, its key, and the text that is compared and digested. */
interface Keyed {
  readonly row: StoredRow
  readonly key: string
  readonly text: string
}

const keyed = ({ keys }: StoredTable) => (row: StoredRow): Keyed => ({
  row,
  key: JSON.stringify(row.slice(0, keys)),
  text: JSON.stringify(row)
})

const takePage = (rows: Iterator<StoredRow>, toKeyed: (row: StoredRow) => Keyed) => {
  const page: Array<Keyed> = []
  let size = 0
  while (page.length < PAGE_ROWS && size < PAGE_SIZE) {
    const next = rows.next()
    if (next.done === true) return { page, isLast: true }
    const row = toKeyed(next.value)
    page.push(row)
    size += row.text.length
  }
  return { page, isLast: false }
}

/** The difference between a page and the rows of the target. */
interface Difference {
  /** Rows of the target without an equal row in the page. */
  readonly removed: ReadonlyArray<Keyed>
  /** Rows of the page without an equal row in the target. */
  readonly added: ReadonlyArray<Keyed>
}

const differenceOf = (page: ReadonlyArray<Keyed>, found: ReadonlyArray<Keyed>): Difference => {
  const stored = new Map<string, Keyed>()
  const doubled = new Set<string>()
  for (const row of found) {
    if (stored.has(row.key)) doubled.add(row.key)
    stored.set(row.key, row)
  }
  const added = page.filter(({ key, text }) => doubled.has(key) || stored.get(key)?.text !== text)
  const isAdded = new Set(added.map(({ key }) => key))
  const wanted = new Set(page.map(({ key }) => key))
  return { added, removed: found.filter(({ key }) => isAdded.has(key) || !wanted.has(key)) }
}

/** The first difference in words. */
const describe = ({ columns }: StoredTable, found: ReadonlyArray<Keyed>, { added, removed }: Difference) => {
  const [first] = added
  if (first === undefined) return { key: removed[0]?.key ?? "", difference: "only the target has this row" }
  const { key, row } = first
  const others = found.filter((other) => other.key === key)
  const [other] = others
  if (other === undefined) return { key, difference: "the target does not have this row" }
  if (others.length > 1) return { key, difference: `the target has this row ${others.length} times` }
  const names = Object.keys(columns).filter((_, index) => row[index] !== other.row[index])
  return { key, difference: `the values of ${names.join(", ")} differ` }
}

const unreadable = ({ name }: StoredTable) => (cause: unknown) =>
  cause instanceof TransferError
    ? cause
    : new TransferError({
      table: name,
      reason: new RowUnreadable({ problem: cause instanceof Error ? cause.message : String(cause) })
    })

/** Goes through a table once. If `writes`, writes the differences; otherwise fails at the first one. */
const pass = Effect.fnUntraced(function*(
  source: TransferSource,
  target: TransferTarget,
  table: StoredTable,
  writes: boolean,
  onRows: (rows: number) => Effect.Effect<void>
) {
  const toKeyed = keyed(table)
  const digests = { source: createHash("sha256"), target: createHash("sha256") }
  let [rows, stored, changed] = [0, 0, 0]
  let after: StoredRow | undefined
  const iterator = yield* Effect.try({ try: () => source.rows(table)[Symbol.iterator](), catch: unreadable(table) })
  while (true) {
    const { isLast, page } = yield* Effect.try({ try: () => takePage(iterator, toKeyed), catch: unreadable(table) })
    const last = isLast ? undefined : page.at(-1)?.row.slice(0, table.keys)
    const wanted = new Set(page.map(({ key }) => key))
    // Rows that the source does not have are removed unread: a page contains few large rows, but the target may have many between two of them.
    let hasExcess = writes
    while (hasExcess) {
      const keys = yield* target.keys(table, { after, last }, FOUND_ROWS)
      const excess = keys.filter((key) => !wanted.has(JSON.stringify(key)))
      if (excess.length > 0) yield* target.replace(table, excess, [])
      changed += excess.length
      hasExcess = excess.length > 0 && keys.length === FOUND_ROWS
    }
    while (true) {
      const found = (yield* target.rows(table, { after, last }, FOUND_ROWS)).map(toKeyed)
      const difference = differenceOf(page, found)
      const { added, removed } = difference
      const isAll = found.length < FOUND_ROWS
      if (added.length + removed.length > 0 && !writes) {
        return yield* new TransferError({ table: table.name, reason: new RowsDiffer(describe(table, found, difference)) })
      }
      if (!isAll) {
        // The target has more rows than a page can have, so some are not in the source. The next round reads what follows them.
        yield* target.replace(table, removed.map(({ row }) => row), [])
        changed += removed.length
        continue
      }
      if (added.length + removed.length > 0) {
        yield* target.replace(table, removed.map(({ row }) => row), added.map(({ row }) => row))
        changed += Math.max(added.length, removed.length)
      }
      for (const { text } of page) digests.source.update(text).update("\n")
      for (const { text } of found) digests.target.update(text).update("\n")
      stored += found.length
      break
    }
    rows += page.length
    yield* onRows(rows)
    if (isLast) break
    after = last
  }
  return { rows, stored, changed, digest: digests.source.digest("hex"), found: digests.target.digest("hex") }
})

/** Makes a table of the target equal to that of the source. */
const copyTable = Effect.fnUntraced(function*(
  source: TransferSource,
  target: TransferTarget,
  table: StoredTable,
  onState: (state: TransferState) => Effect.Effect<void>
): Effect.fn.Return<TransferredTable, TransferError> {
  const { name } = table
  const total = yield* Effect.try({ try: () => source.count(table), catch: unreadable(table) })
  const run = (step: TransferState["step"], writes: boolean) =>
    pass(source, target, table, writes, (rows) => onState({ table: name, step, rows, total }))
  const copied = yield* run("copy", true)
  const compared = copied.changed === 0 ? copied : yield* run("compare", false)
  const { digest, found, rows, stored } = compared
  if (digest !== found || rows !== stored || rows !== copied.rows) {
    return yield* new TransferError({
      table: name,
      reason: new RowsDiffer({
        key: "(none)",
        difference: `the source has ${rows} rows with the digest ${digest}, the target ${stored} with the digest ${found}`
      })
    })
  }
  return { table: name, rows, digest, changed: copied.changed, orphans: total - rows }
})

/** Makes all tables of the target equal to those of the source. */
export const copy = (
  source: TransferSource,
  target: TransferTarget,
  onState: (state: TransferState) => Effect.Effect<void>
): Effect.Effect<ReadonlyArray<TransferredTable>, TransferError> =>
  Effect.forEach(TABLES, (table) => copyTable(source, target, table, onState))

import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import { type StoredRow, type StoredTable, TABLES, type Value } from "../src/transfer/StoredTables.ts"
import * as Transfer from "../src/transfer/Transfer.ts"
import type { TransferError } from "../src/transfer/TransferError.ts"

type Rows = Map<string, Array<StoredRow>>

const keyOf = (table: StoredTable, row: StoredRow): string => JSON.stringify(row.slice(0, table.keys))

/** Compares numbers by value and texts by their bytes. */
const compare = (table: StoredTable) => (a: StoredRow, b: StoredRow): number => {
  for (let index = 0; index < table.keys; index++) {
    const [left, right] = [a[index], b[index]]
    const order = typeof left === "number" && typeof right === "number"
      ? left - right
      : Buffer.compare(Buffer.from(String(left)), Buffer.from(String(right)))
    if (order !== 0) return order
  }
  return 0
}

const sourceOf = (rows: Rows): Transfer.TransferSource => ({
  rows: (table) => (rows.get(table.name) ?? []).toSorted(compare(table)),
  count: (table) => rows.get(table.name)?.length ?? 0
})

/** What a faulty target does to the rows that it stores. */
type Fault = (table: StoredTable, added: ReadonlyArray<StoredRow>) => ReadonlyArray<StoredRow>

const found = (rows: Rows, table: StoredTable, { after, last }: Transfer.KeyRange, limit: number): ReadonlyArray<StoredRow> =>
  (rows.get(table.name) ?? []).filter((row) =>
    (after === undefined || compare(table)(row, after) > 0) && (last === undefined || compare(table)(row, last) <= 0)
  ).toSorted(compare(table)).slice(0, limit)

const targetOf = (rows: Rows, fault: Fault = (_, added) => added): Transfer.TransferTarget => ({
  keys: (table, range, limit) => Effect.sync(() => found(rows, table, range, limit).map((row) => row.slice(0, table.keys))),
  rows: (table, range, limit) => Effect.sync(() => found(rows, table, range, limit)),
  replace: (table, removed, added) =>
    Effect.sync(() => {
      const gone = new Set(removed.map((row) => keyOf(table, row)))
      const kept = (rows.get(table.name) ?? []).filter((row) => !gone.has(keyOf(table, row)))
      rows.set(table.name, [...kept, ...fault(table, added)])
    })
})

const copy = (source: Rows, target: Transfer.TransferTarget, onState: () => void = () => {}) =>
  Effect.runPromiseExit(Transfer.copy(sourceOf(source), target, () => Effect.sync(onState)))

const failureOf = async (source: Rows, target: Transfer.TransferTarget): Promise<TransferError> => {
  const flipped = Effect.flip(Transfer.copy(sourceOf(source), target, () => Effect.void))
  return Effect.runPromise(flipped)
}

const sorted = (rows: Rows) => TABLES.map((table) => (rows.get(table.name) ?? []).toSorted(compare(table)))

const valueOf = (type: string | undefined): fc.Arbitrary<Value> =>
  type === "integer"
    ? fc.integer({ min: 0, max: 30 })
    : type === "boolean"
    ? fc.boolean()
    : fc.oneof(fc.constantFrom("a", "b", "é", "\u{1F600}", "\uF8FE", "\u{FFFD}"), fc.string({ unit: "grapheme", maxLength: 5 }))

const rowsOf = (table: StoredTable): fc.Arbitrary<Array<StoredRow>> =>
  fc.uniqueArray(fc.tuple(...Object.values(table.columns).map(valueOf)), {
    maxLength: 12,
    selector: (row) => keyOf(table, row)
  })

const database: fc.Arbitrary<Rows> = fc.tuple(...TABLES.map(rowsOf)).map((rows) =>
  new Map(TABLES.map(({ name }, index) => [name, rows[index] ?? []]))
)

const numbered = (count: number, body: (n: number) => string = String): Rows =>
  new Map([["run_events", Array.from({ length: count }, (_, n) => [n, "red", "name", "key", null, 9, body(n)])]])

describe("a copy between stores", () => {
  it("makes any target equal to any source, and a second copy changes nothing", () =>
    fc.assert(
      fc.asyncProperty(database, database, async (source, target) => {
        const exit = await copy(source, targetOf(target))
        expect(Exit.isSuccess(exit)).toBe(true)
        expect(sorted(target)).toEqual(sorted(source))
        const again = await copy(source, targetOf(target))
        expect(Exit.isSuccess(again) && again.value.every(({ changed }) => changed === 0)).toBe(true)
        expect(Exit.isSuccess(again) && again.value.map(({ rows }) => rows)).toEqual(sorted(source).map(({ length }) => length))
      }),
      { numRuns: 40 }
    ))

  it("continues after an interruption at any page, and copies nothing twice", async () => {
    for (const last of [1, 2, 3]) {
      const target: Rows = new Map()
      let calls = 0
      const dying: Transfer.TransferTarget = {
        ...targetOf(target),
        replace: (...args) => calls++ === last ? Effect.die("killed") : targetOf(target).replace(...args)
      }
      expect(Exit.isFailure(await copy(numbered(2_500), dying))).toBe(true)
      const exit = await copy(numbered(2_500), targetOf(target))
      expect(Exit.isSuccess(exit) && exit.value.find(({ table }) => table === "run_events")).toMatchObject({
        rows: 2_500,
        changed: 2_500 - last * 500
      })
      expect(sorted(target)).toEqual(sorted(numbered(2_500)))
    }
  })

  it("removes all rows that the source no longer has, however many there are", async () => {
    const target = numbered(5_000)
    const source: Rows = new Map([["run_events", (numbered(5_000).get("run_events") ?? []).filter((_, n) => n % 1_700 === 7)]])
    expect(Exit.isSuccess(await copy(source, targetOf(target)))).toBe(true)
    expect(sorted(target)).toEqual(sorted(source))
  })

  it("reads no row that only the target has, because a page of them may be larger than the memory", async () => {
    const target = numbered(5_000)
    const source: Rows = new Map([["run_events", (numbered(5_000).get("run_events") ?? []).filter((_, n) => n % 1_700 === 7)]])
    let read = 0
    const counting: Transfer.TransferTarget = {
      ...targetOf(target),
      rows: (...args) => Effect.tap(targetOf(target).rows(...args), (rows) => Effect.sync(() => (read += rows.length)))
    }
    expect(Exit.isSuccess(await copy(source, counting))).toBe(true)
    expect(sorted(target)).toEqual(sorted(source))
    expect(read).toBe(2 * 3)
  })

  it("ends a page before it holds more than a few large rows", async () => {
    let pages = 0
    await copy(numbered(12, () => "x".repeat(2_000_000)), targetOf(new Map()), () => pages++)
    expect(pages).toBeGreaterThan(6)
  })

  it.each<readonly [string, Fault, RegExp]>([
    ["loses a row", (_, added) => added.slice(1), /run_events .* at the key \[0\]: the target does not have this row/],
    [
      "changes one character",
      (_, added) => added.map((row) => row[0] === 700 ? row.with(6, "70O") : row),
      /run_events .* at the key \[700\]: the values of body differ/
    ],
    [
      "stores a row twice",
      (_, added) => added.flatMap((row) => row[0] === 3 ? [row, row] : [row]),
      /run_events .* at the key \[3\]: the target has this row 2 times/
    ],
    [
      "stores another row",
      (_, added) => added.flatMap((row) => row[0] === 3 ? [row, row.with(0, 3.5)] : [row]),
      /run_events .* at the key \[3.5\]: only the target has this row/
    ]
  ])("names the table and the key when a target %s", async (_, fault, message) => {
    const error = await failureOf(numbered(1_200), targetOf(new Map(), fault))
    expect(error.message).toMatch(message)
  })

  it("reports a row of the source that cannot be read, with its table", async () => {
    const source: Transfer.TransferSource = {
      count: () => 1,
      rows: function*(table) {
        if (table.name === "keys") throw new Error("job x is invalid")
      }
    }
    const error = await Effect.runPromise(Effect.flip(Transfer.copy(source, targetOf(new Map()), () => Effect.void)))
    expect(error.message).toBe("The table keys of the source cannot be read: job x is invalid.")
  })

  it("counts the rows that belong to nothing", async () => {
    const source = { ...sourceOf(numbered(3)), count: () => 5 }
    const tables = await Effect.runPromise(Transfer.copy(source, targetOf(new Map()), () => Effect.void))
    expect(tables.find(({ table }) => table === "run_events")).toMatchObject({ rows: 3, orphans: 2 })
  })
})

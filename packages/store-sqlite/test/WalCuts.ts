/** Cuts the WAL at random places, as a power failure may. */
import { assert } from "@effect/vitest"
import { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { Scenario, SeededRandom } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as fc from "fast-check"
import { copyFileSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import { tempFile } from "./TestDatabase.ts"

/** Opens the file for as long as `use` runs. */
const open = <A, E>(file: string, use: Effect.Effect<A, E, JobStore | SqliteDatabase.SqliteDatabase>) =>
  Effect.provide(use, SqliteJobStore.layer.pipe(Layer.provideMerge(SqliteDatabase.layer({ file, lockWaitMs: 0 }))), {
    local: true
  })

/** Returns the ids whose jobs are not in the store. */
const missingOf = (ids: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const store = yield* JobStore
    return yield* Effect.filter(ids, (id) =>
      Effect.map(store.get(Scenario.endpoint().id, JobId.make(id)), (job) => job === undefined))
  })

/**
 * Stores 30 jobs, and cuts the WAL `count` times: each time somewhere after the commit of a random job. Asserts that this job and all earlier
 * ones survive. `size`: zeros follow the cut up to this size, as in a WAL that had its full size from the start. Returns the number of jobs that were looked
 * up.
 */
export const cutWal = Effect.fnUntraced(function*(count: number, size = 0) {
  const file = yield* tempFile
  const copy = yield* tempFile
  yield* open(copy, Effect.void)
  yield* open(file, Effect.void)
  copyFileSync(file, copy)
  /** The length of the WAL after each acknowledged job. */
  const lengths: Array<number> = []
  const ids: Array<string> = []
  const wal = yield* open(
    file,
    Effect.gen(function*() {
      const store = yield* JobStore
      const db = yield* SqliteDatabase.SqliteDatabase
      yield* db.read("stop checkpoints", () => db.statement("PRAGMA wal_autocheckpoint = 0").all())
      for (let n = 0; n < 30; n++) {
        const job = Scenario.record({ input: toJsonText("x".repeat(n * 500)) })
        yield* store.insert(job)
        ids.push(job.id)
        lengths.push(statSync(`${file}-wal`).size)
      }
      return readFileSync(`${file}-wal`)
    })
  )
  const base = readFileSync(copy)
  const writeWal = (bytes: Buffer) => {
    writeFileSync(`${copy}-wal`, bytes)
    if (size > bytes.length) truncateSync(`${copy}-wal`, size)
  }
  const seed = SeededRandom.runSeed()
  const cuts = fc.sample(fc.tuple(fc.nat({ max: 29 }), fc.nat({ max: 20_000 })), { numRuns: count, seed })
  let lookedUp = 0
  for (const [acknowledged, beyond] of cuts) {
    writeFileSync(copy, base)
    writeWal(wal.subarray(0, (lengths[acknowledged] ?? 0) + beyond))
    const missing = yield* open(copy, missingOf(ids.slice(0, acknowledged + 1)))
    assert.deepStrictEqual(missing, [], `STINT_PROPERTY_SEED=${seed}, after ${acknowledged + 1} jobs, ${beyond} bytes further`)
    lookedUp += acknowledged + 1
  }
  // The jobs exist only in the WAL: if its last part is cut off, the last job is lost.
  writeFileSync(copy, base)
  writeWal(wal.subarray(0, lengths[28]))
  assert.deepStrictEqual(yield* open(copy, missingOf(ids)), ids.slice(29))
  rmSync(`${copy}-wal`, { force: true })
  return lookedUp
})

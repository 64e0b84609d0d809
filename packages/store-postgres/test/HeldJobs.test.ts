import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Query } from "../src/Connection.ts"
import { MANY } from "../src/DeadRows.ts"
import * as HeldJobs from "../src/HeldJobs.ts"
import type { PostgresDatabase } from "../src/PostgresDatabase.ts"

const workers = Array.from({ length: 40 }, (_, n) => ({ endpoint: EndpointId.make(`e${n % 3}`), worker: `w${n}` }))

/** A database in which every third worker holds a job, and the number of its statements. */
const make = (fails = false) => {
  const counts = { statements: 0, deadRows: 0, time: 0 }
  const query: Query = (_, values = []) => {
    counts.statements += 1
    const [, wanted] = values as readonly [ReadonlyArray<string>, ReadonlyArray<string>]
    return Promise.resolve(wanted.flatMap((worker, index) => Number(worker.slice(1)) % 3 === 0 ? [[index + 1]] : []))
  }
  const db = {
    deadRows: { isMany: (table: string) => table === "running" && counts.deadRows >= MANY },
    read: <A>(operation: string, run: (query: Query) => Promise<A>) =>
      fails
        ? Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation, cause: new Error("gone") }) }))
        : Effect.promise(() => run(query))
  } as unknown as PostgresDatabase["Service"]
  return { counts, holds: HeldJobs.make(db, () => counts.time) }
}

describe("whether workers hold jobs", () => {
  it.effect("is read by one statement when it is read in one turn, and each caller gets the answer for its worker", () =>
    Effect.gen(function*() {
      const { counts, holds } = make()
      const held = yield* Effect.forEach([...workers, ...workers], holds, { concurrency: "unbounded" })
      assert.deepStrictEqual(held, [...workers, ...workers].map((_, n) => (n % workers.length) % 3 === 0))
      assert.strictEqual(counts.statements, 1)
      assert.isFalse(yield* holds({ endpoint: EndpointId.make("e1"), worker: "w1" }))
      assert.strictEqual(counts.statements, 2)
    }))

  it.effect("is read once a second for each worker while there are many dead rows", () =>
    Effect.gen(function*() {
      const { counts, holds } = make()
      const [ann, bob] = [{ endpoint: EndpointId.make("e0"), worker: "w3" }, { endpoint: EndpointId.make("e1"), worker: "w6" }]
      counts.deadRows = MANY
      assert.deepStrictEqual([yield* holds(ann), yield* holds(ann), yield* holds(bob), yield* holds(bob)], [
        true,
        false,
        true,
        false
      ])
      assert.strictEqual(counts.statements, 2)
      counts.time = 999
      assert.isFalse(yield* holds(ann))
      counts.time = 1_000
      assert.isTrue(yield* holds(ann))
      counts.deadRows = 0
      assert.deepStrictEqual([yield* holds(ann), yield* holds(ann)], [true, true])
    }))

  it.effect("fails for all callers when the database fails", () =>
    Effect.gen(function*() {
      const { holds } = make(true)
      const results = yield* Effect.forEach(workers, (one) => Effect.result(holds(one)), { concurrency: "unbounded" })
      assert.isTrue(
        results.length === 40 && results.every((result) => Result.isFailure(result) && result.failure instanceof StoreError)
      )
    }))
})

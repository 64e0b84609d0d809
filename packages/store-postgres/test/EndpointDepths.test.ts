import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Query } from "../src/Connection.ts"
import * as EndpointDepths from "../src/EndpointDepths.ts"
import type { PostgresDatabase } from "../src/PostgresDatabase.ts"

const ids = Array.from({ length: 40 }, (_, n) => EndpointId.make(`e${n}`))

/** A database whose endpoint `eN` has N waiting jobs, and the number of its statements. */
const make = (fails = false) => {
  const statements: Array<ReadonlyArray<unknown>> = []
  const query: Query = (text, values = []) => {
    statements.push(values)
    if (!text.includes("stint.tallies")) return Promise.resolve([[1_000, 1_000]])
    const [, wanted] = values as readonly [string, ReadonlyArray<string>]
    return Promise.resolve(wanted.filter((id) => id !== "e0").map((id) => [id, Number(id.slice(1)), 0, 0, 0, 0, 0, 0, 0, 0]))
  }
  const db = {
    read: <A>(operation: string, run: (query: Query) => Promise<A>) =>
      fails
        ? Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation, cause: new Error("gone") }) }))
        : Effect.promise(() => run(query))
  } as unknown as PostgresDatabase["Service"]
  return { statements, depth: EndpointDepths.make(db) }
}

describe("the depths of endpoints", () => {
  it.effect("are read by one statement when they are read in one turn, and each caller gets its own", () =>
    Effect.gen(function*() {
      const { depth, statements } = make()
      const depths = yield* Effect.forEach([...ids, ...ids], depth, { concurrency: "unbounded" })
      assert.deepStrictEqual(depths.map(({ waiting }) => waiting), [...ids, ...ids].map((id) => Number(id.slice(1))))
      assert.deepStrictEqual(depths.map(({ oldestQueuedAt }) => oldestQueuedAt).slice(0, 2), [null, 1_000])
      // One for all endpoints, and one for the oldest job of each that has any.
      assert.strictEqual(statements.length, 1 + 39)
      yield* depth(EndpointId.make("e0"))
      assert.strictEqual(statements.length, 41)
    }))

  it.effect("fail for all callers when the database fails", () =>
    Effect.gen(function*() {
      const { depth } = make(true)
      const results = yield* Effect.forEach(ids, (id) => Effect.result(depth(id)), { concurrency: "unbounded" })
      assert.isTrue(results.every((result) => Result.isFailure(result) && result.failure instanceof StoreError))
    }))
})

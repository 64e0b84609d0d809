import { describe, vi } from "@effect/vitest"
import { jobStoreSuite, SeededRandom } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import { makeDatabases, missing, testCluster } from "./TestCluster.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

/** A store on which each operation goes to a random one of two nodes with the same database. */
const twoNodes = (address: string) =>
  Layer.effect(
    JobStore,
    Effect.gen(function*() {
      const url = Redacted.make(address)
      const node = Effect.map(
        Layer.build(PostgresJobStore.layer.pipe(Layer.provide(PostgresDatabase.layer({ url })))),
        (context) => Context.get(context, JobStore)
      )
      const [first, second] = [yield* node, yield* node]
      const random = SeededRandom.seededRandom(1)
      const any = () => random() < 0.5 ? first : second
      return JobStore.of({
        durability: first.durability,
        insert: (...args) => any().insert(...args),
        apply: (...args) => any().apply(...args),
        append: (...args) => any().append(...args),
        claim: (...args) => any().claim(...args),
        tick: (...args) => any().tick(...args),
        applyRunning: (...args) => any().applyRunning(...args),
        applyWaiting: (...args) => any().applyWaiting(...args),
        get: (...args) => any().get(...args),
        traceOf: (...args) => any().traceOf(...args),
        input: (...args) => any().input(...args),
        drain: (...args) => any().drain(...args),
        peek: (...args) => any().peek(...args),
        list: (...args) => any().list(...args),
        ahead: (...args) => any().ahead(...args),
        depth: (...args) => any().depth(...args),
        keyUsage: (...args) => any().keyUsage(...args)
      })
    })
  )

describe.skipIf(missing !== undefined)(missing ?? "two nodes", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)
  jobStoreSuite("postgres, each call at a random one of two nodes", Layer.unwrap(Effect.map(url, twoNodes)), {
    sequences: 40,
    storms: 1,
    concurrencyKeys: false,
    isOneNode: false
  })
})

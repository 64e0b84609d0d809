/**
 * Large payloads with SQLite: the conformance suite, and the sweep across a restart.
 */
import { assert, describe, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { DirectoryPayloadStore } from "@stint/payloads"
import { jobPayloadsSuite, PayloadFaults, TestPayloads } from "@stint/payloads-testing"
import { layer as layerPayloads } from "@stint/payloads/Payloads"
import { PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import * as Sqlite from "@stint/store-sqlite"
import { Scenario, StoreFaults } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const HOUR = 3_600_000

/** A temporary folder that is removed with the scope. */
const tempFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "stint-payload-rows-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

jobPayloadsSuite(
  "SQLite",
  Layer.unwrap(
    Effect.map(tempFolder, (folder) => Sqlite.layer({ file: join(folder, "stint.db"), durability: "D1", lockWaitMs: 0 }))
  ),
  { sequences: 30, texts: 60 }
)

const keys = Effect.map(
  Effect.flatMap(PayloadStore, (store) => Stream.runCollect(store.list(PayloadKey.make("test")))),
  (all) => [...all]
)

describe("the payload sweep of a running platform", () => {
  it.effect("removes objects that were left before a restart, and continues after a failure", () =>
    Effect.gen(function*() {
      const folder = yield* tempFolder
      const stores = Sqlite.layer({ file: join(folder, "stint.db"), lockWaitMs: 0 })
      const payloads = PayloadFaults.layer(
        DirectoryPayloadStore.layer({ folder: join(folder, "payloads") }).pipe(Layer.orDie)
      )
      const platform = layerPayloads({ ...TestPayloads.OFFLOAD_ALL, sweep: { interval: "10 minutes" } }).pipe(
        Layer.provideMerge(Layer.merge(StoreFaults.layer(stores).pipe(Layer.provideMerge(stores)), payloads))
      )
      yield* Effect.gen(function*() {
        const { failNextWrites } = yield* StoreFaults.StoreFaults
        const store = yield* JobStore
        yield* failNextWrites(1)
        yield* Effect.flip(store.insert(Scenario.record()))
        yield* store.insert(Scenario.record())
        assert.strictEqual((yield* keys).length, 2)
      }).pipe(Effect.provide(platform))
      yield* TestClock.adjust(2 * HOUR)
      yield* Effect.gen(function*() {
        const faults = yield* PayloadFaults.PayloadFaults
        yield* waitFor(Effect.map(keys, (all) => all.length === 1))
        const store = yield* JobStore
        const orphan = PayloadKey.make("test/letters/nobody/input.1.x")
        yield* (yield* PayloadStore).put(orphan, new Uint8Array([49]))
        yield* faults.failNext("remove", 1)
        yield* TestClock.adjust("10 minutes")
        yield* waitFor(Effect.sync(() => faults.calls().filter(({ operation }) => operation === "remove").length === 2))
        assert.include(yield* keys, orphan)
        yield* TestClock.adjust("10 minutes")
        yield* waitFor(Effect.map(keys, (all) => all.length === 1))
        const { jobs } = yield* store.claim(Scenario.endpoint().id, 1, { _tag: "Claim", now: 1, worker: "ann" })
        assert.strictEqual(jobs[0]?.input, toJsonText({ text: "hello" }))
      }).pipe(Effect.provide(platform))
    }).pipe(Effect.scoped))
})

/** Polls once per turn of the event loop, because file operations take several turns. */
const waitFor = (wanted: Effect.Effect<boolean, unknown, PayloadStore>) =>
  Effect.gen(function*() {
    for (let turn = 0; turn < 5_000; turn++) {
      if (yield* wanted) return
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
    }
    assert.fail("the expected state was not reached")
  })

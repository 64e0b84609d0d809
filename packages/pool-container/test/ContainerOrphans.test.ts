import { assert, describe, expect, it } from "@effect/vitest"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import type { WorkerLine } from "@stint/pool/WorkerLog"
import type { WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import { rmSync } from "node:fs"
import { join } from "node:path"
import { frame, StubContainer } from "./StubEngine.ts"
import { until, variablesOf, world } from "./TestWorld.ts"

const WORKER = WorkerId.make("w-1")

const theOrphan = ({ orphans }: WorkerPool["Service"]) => {
  const [orphan, ...others] = orphans
  if (orphan === undefined || others.length > 0) throw new Error(`there are ${orphans.length} orphans`)
  return orphan
}

describe("ContainerOrphans", () => {
  it.live("takes over a running container: its output continues, and requests to exit work", () =>
    Effect.gen(function*() {
      const { engine, pool, records, start, texts } = yield* world
      yield* start(yield* pool())
      const container = engine.only
      container.print(frame(1, "before\n"))
      yield* until("the first line", () => texts().length === 1 ? true : undefined)

      // The first platform stays, as far as this process is concerned, but its successor must not depend on it.
      const sink: Array<WorkerLine> = []
      const orphan = theOrphan(yield* pool({}, sink))
      expect(orphan).toMatchObject({ id: WORKER, endpoint: EndpointId.make("tested"), isRunning: true })
      container.print(frame(1, "meanwhile\n"))
      const handle = yield* orphan.adopt(variablesOf(WORKER))
      yield* until("the line of the time between", () => sink.length === 1 ? true : undefined)
      yield* handle.drain
      assert.deepStrictEqual(container.signals, ["SIGTERM"])
      container.print(frame(2, "after stint_worker_0123456789\n"))
      container.exit(0)
      const exit = yield* handle.exit
      expect(exit).toMatchObject({ _tag: "Exited", code: 0 })
      assert.deepStrictEqual(sink.map(({ text }) => text), ["meanwhile", "after [the worker's key]"])
      assert.strictEqual(engine.containers.size, 0)
      yield* handle.forget ?? Effect.void
      assert.deepStrictEqual(records(), [])
      assert.deepStrictEqual((yield* pool()).orphans, [])
      assert.strictEqual(engine.created.length, 1)
    }).pipe(Effect.scoped))

  it.live("reports a container that ended without a platform, with its last lines, and removes it", () =>
    Effect.gen(function*() {
      const { engine, leave, pool, records } = yield* world
      leave("exited").output = frame(2, "the model file is damaged\n")
      const orphan = theOrphan(yield* pool())
      assert.isFalse(orphan.isRunning)
      const handle = yield* orphan.adopt(variablesOf(WORKER))
      assert.deepStrictEqual(yield* handle.exit, {
        _tag: "Lost",
        reason: "its container had ended before the platform started.",
        log: ["the model file is damaged"]
      })
      assert.strictEqual(engine.containers.size, 0)

      // This platform ends before the worker's jobs are back in the queue.
      const next = theOrphan(yield* pool())
      assert.isFalse(next.isRunning)
      const again = yield* next.adopt(variablesOf(WORKER))
      assert.strictEqual((yield* again.exit)._tag, "Lost")
      yield* again.forget ?? Effect.void
      assert.deepStrictEqual(records(), [])
    }).pipe(Effect.scoped))

  it.live("removes a container that was created but never started, and forgets one that is gone", () =>
    Effect.gen(function*() {
      const { engine, leave, pool, records } = yield* world
      leave("created")
      const gone = leave("exited")
      engine.containers.delete(gone.name)
      const { orphans } = yield* pool()
      assert.deepStrictEqual(orphans.map(({ id, isRunning }) => [id, isRunning]), [["w-1", false], ["w-2", false]])
      for (const { adopt, id } of orphans) {
        const handle = yield* adopt(variablesOf(id))
        const exit = yield* handle.exit
        assert.strictEqual(exit._tag, "Lost")
        yield* handle.forget ?? Effect.void
      }
      assert.deepStrictEqual([engine.containers.size, records()], [0, []])
    }).pipe(Effect.scoped))

  it.live("counts a container as running while the engine does not answer, and takes it over when it does", () =>
    Effect.gen(function*() {
      const { engine, leave, logged, outputs, pool } = yield* world
      const container = leave("running")
      yield* Effect.promise(() => engine.vanish())
      const orphan = theOrphan(yield* pool())
      assert.isTrue(orphan.isRunning)
      const handle = yield* Effect.provide(orphan.adopt(variablesOf(WORKER)), outputs)
      let exit: unknown
      yield* Effect.forkChild(Effect.tap(handle.exit, (end) => Effect.sync(() => exit = end)))
      yield* until("the warning", () => logged.find((text) => text.startsWith("The state of worker w-1")))
      assert.isUndefined(exit)
      yield* Effect.promise(() => engine.appear())
      yield* until("the connection", () => engine.requests.includes("POST /containers/stint-w-1/wait") ? true : undefined)
      container.exit(4)
      expect(yield* handle.exit).toMatchObject({ _tag: "Exited", code: 4 })
    }).pipe(Effect.scoped))

  it.live("removes containers with this platform's label that have no record, and no other platform's", () =>
    Effect.gen(function*() {
      const { engine, pool, records, start } = yield* world
      const first = yield* pool()
      yield* start(first)
      yield* start(first, { command: ["kept"] })
      const [unknown, kept] = engine.created
      rmSync(join(engine.folder, "data/containers/w-1.json"))
      const foreign = new StubContainer("another", { Labels: { "stint.platform": "another", "stint.worker": "w-1" } })
      engine.containers.set(foreign.name, foreign)
      yield* pool()
      yield* until("the removal", () => engine.containers.has(unknown?.name ?? "") ? undefined : true)
      assert.deepStrictEqual([...engine.containers.keys()], [kept?.name, "another"])
      assert.include(records(), "w-2.json")
    }).pipe(Effect.scoped))
})

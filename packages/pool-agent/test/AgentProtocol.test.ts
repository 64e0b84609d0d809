/**
 * The protocol between agents and the platform, on a test clock: lost and repeated messages, epochs, leases, and what happens to workers.
 */
import { assert, describe } from "@effect/vitest"
import type { AgentOrder, AgentReport } from "@stint/contract/Agent"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import type { ImagePullProgress } from "@stint/contract/ImagePull"
import { Agents } from "@stint/pool/Agents"
import { Faults } from "@stint/pool/MemoryWorkerPool"
import type { PoolError } from "@stint/pool/PoolError"
import { type WorkerLine, WorkerLog } from "@stint/pool/WorkerLog"
import { type OrphanedWorker, type PoolChange, WorkerPool } from "@stint/pool/WorkerPool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { LEASE_MILLIS } from "../src/Connection.ts"
import { after, begin, handReport, join, KEY, layerAgent, linkOver, network, pull, testWith, viewOf } from "./TestAgents.ts"

const lines: Array<WorkerLine> = []
const capture = Layer.succeed(WorkerLog, { write: (line) => Effect.sync(() => void lines.push(line)) })

const test = testWith(capture)

describe("agents", () => {
  test(
    "start a worker even if the response with its order was lost",
    Effect.gen(function*() {
      const net = network()
      const { faults } = yield* join("one", net)
      net.loseAnswers = 2
      const starting = yield* Effect.forkScoped(begin())
      yield* after(2_000)
      yield* Fiber.join(starting)
      assert.strictEqual(yield* faults.started, 1)
    })
  )

  test(
    "start one worker when its order is repeated",
    Effect.gen(function*() {
      const agents = yield* Agents
      const link = linkOver(agents, "one", network())
      const kept: Array<AgentOrder> = []
      // Every response also contains all earlier orders to start a worker.
      const repeating = {
        ...link,
        report: (report: AgentReport) =>
          Effect.map(link.report(report), (orders) => {
            kept.push(...orders.workers.filter(({ start }) => start !== undefined))
            return { ...orders, workers: [...kept, ...kept, ...orders.workers] }
          })
      }
      const built = yield* Layer.build(layerAgent(repeating))
      yield* after(20)
      const starting = yield* Effect.forkScoped(begin())
      yield* after(10_000)
      yield* Fiber.join(starting)
      assert.isAbove(kept.length, 0)
      assert.strictEqual(yield* Context.get(built, Faults).started, 1)
    })
  )

  test(
    "refuse a report that is older than one that has arrived",
    Effect.gen(function*() {
      const agents = yield* Agents
      const { orders } = yield* agents.report("one", KEY, handReport())
      yield* agents.report("one", KEY, handReport({ epoch: orders.epoch, number: 3 }))
      const late = yield* Effect.flip(agents.report("one", KEY, handReport({ epoch: orders.epoch, number: 2 })))
      assert.include(late.problem, "epoch of this connection is over")
      const copy = yield* Effect.flip(agents.report("one", KEY, handReport({ epoch: orders.epoch, number: 3 })))
      assert.strictEqual(copy._tag, "AgentRefused")
    })
  )

  test(
    "are fenced by their epoch after they have been lost",
    Effect.gen(function*() {
      const agents = yield* Agents
      const { orders: before } = yield* agents.report("one", KEY, handReport())
      yield* after(LEASE_MILLIS + 1)
      assert.strictEqual((yield* viewOf("one"))?.state, "lost")
      const { orders: now } = yield* agents.report("one", KEY, handReport({ number: 2 }))
      assert.notStrictEqual(now.epoch, before.epoch)
      const stale = yield* Effect.flip(agents.report("one", KEY, handReport({ epoch: before.epoch, number: 9 })))
      assert.include(stale.problem, "over")
      yield* Effect.flip(agents.changes("one", KEY.id, before.epoch, 0))
      // Another key cannot speak for the agent.
      yield* Effect.flip(agents.changes("one", "another key", now.epoch, -1))
      assert.strictEqual((yield* agents.changes("one", KEY.id, now.epoch, -1)).revision, now.revision)
    })
  )

  test(
    "with the same name are refused while the first one is connected, but not the first one after a restart",
    Effect.gen(function*() {
      const agents = yield* Agents
      const { orders } = yield* agents.report("one", KEY, handReport())
      const second = yield* Effect.flip(agents.report("one", KEY, handReport({ instance: "another folder" })))
      assert.include(second.problem, "Another agent named one is connected")
      assert.include(second.hint, "--name")
      const { orders: restarted } = yield* agents.report("one", KEY, handReport({ run: "second", number: 0 }))
      assert.notStrictEqual(restarted.epoch, orders.epoch)
      yield* Effect.flip(agents.report("one", KEY, handReport({ epoch: orders.epoch, number: 5 })))
      yield* after(LEASE_MILLIS + 1)
      yield* agents.report("one", KEY, handReport({ instance: "another folder" }))
    })
  )

  test(
    "receive an error that names the version, when they speak another protocol version",
    Effect.gen(function*() {
      const agents = yield* Agents
      const error = yield* Effect.flip(agents.report("one", KEY, handReport({ protocol: 2 })))
      assert.include(error.problem, "version 2 of the agents' protocol")
      assert.include(error.hint, "same version")
    })
  )

  test(
    "report the pull of a worker's image with its progress, and its end before the worker runs",
    Effect.gen(function*() {
      const net = network()
      yield* join("one", net)
      Object.assign(pull, { doneLayers: 0, isEnded: false })
      const seen: Array<string> = []
      let progress: (() => ImagePullProgress) | undefined
      const listener = {
        began: (now: () => ImagePullProgress) => {
          progress = now
          seen.push("began")
        },
        ended: () => void seen.push("ended")
      }
      const starting = yield* Effect.forkScoped(
        Effect.tap(begin({ command: "pulled", pull: listener }), () => Effect.sync(() => void seen.push("runs")))
      )
      yield* after(200)
      assert.deepStrictEqual([seen, progress?.().doneLayers], [["began"], 0])
      pull.doneLayers = 2
      // Without another event, the next report has it.
      yield* after(4_000)
      assert.deepStrictEqual(progress?.(), { layers: 3, doneLayers: 2, bytes: 90, doneBytes: 60 })
      pull.isEnded = true
      yield* after(200)
      assert.deepStrictEqual(seen, ["began", "ended"])
      yield* after(1_000)
      yield* Fiber.join(starting)
      assert.deepStrictEqual(seen, ["began", "ended", "runs"])
    })
  )

  test(
    "that are lost during a pull end it",
    Effect.gen(function*() {
      const net = network()
      yield* join("one", net)
      Object.assign(pull, { doneLayers: 0, isEnded: false })
      const seen: Array<string> = []
      const listener = { began: () => void seen.push("began"), ended: () => void seen.push("ended") }
      yield* Effect.forkScoped(Effect.exit(Effect.scoped(begin({ command: "pulled", pull: listener }))))
      yield* after(200)
      net.isCut = true
      yield* after(LEASE_MILLIS + 1_000)
      assert.deepStrictEqual(seen, ["began", "ended"])
      pull.isEnded = true
    })
  )

  test(
    "that are lost no longer count, and their workers are reported as lost, though they may still run",
    Effect.gen(function*() {
      const net = network()
      yield* join("one", net)
      const starting = yield* Effect.forkScoped(begin())
      yield* after(100)
      const handle = yield* Fiber.join(starting)
      net.isCut = true
      yield* after(LEASE_MILLIS - 4_000)
      assert.strictEqual((yield* viewOf("one"))?.state, "connected")
      yield* after(4_001)
      const exit = yield* handle.exit
      assert.strictEqual(exit._tag === "Lost" && exit.mayRun, true)
      assert.strictEqual((yield* viewOf("one"))?.state, "lost")
      const error = yield* Effect.flip(Effect.scoped(begin()))
      assert.include(error.message, "no agent is connected")
    })
  )

  test(
    "that receive no responses are lost although their reports arrive",
    Effect.gen(function*() {
      const net = network()
      const { faults } = yield* join("one", net)
      net.loseAnswers = Infinity
      const starting = yield* Effect.forkScoped(Effect.flip(Effect.scoped(begin())))
      yield* after(LEASE_MILLIS + 5_001)
      const error: PoolError = yield* Fiber.join(starting)
      assert.strictEqual(error.reason._tag, "NoCapacity")
      assert.include(error.message, "has received no response for 10 s")
      net.loseAnswers = 0
      yield* after(10_000)
      assert.strictEqual((yield* viewOf("one"))?.state, "connected")
      assert.strictEqual(yield* faults.started, 0)
    })
  )

  test(
    "start nothing when they wake with an order from before their lease ended",
    Effect.gen(function*() {
      const net = network()
      const agents = yield* Agents
      const link = linkOver(agents, "one", net)
      // The machine is suspended after the response has arrived, before it is processed.
      let suspend = 0
      const slow = {
        ...link,
        report: (report: AgentReport) =>
          Effect.tap(link.report(report), ({ workers }) => workers.length > 0 ? Effect.sleep(suspend) : Effect.void)
      }
      const built = yield* Layer.build(layerAgent(slow))
      yield* after(20)
      suspend = LEASE_MILLIS + 1_000
      const starting = yield* Effect.forkScoped(Effect.flip(Effect.scoped(begin())))
      yield* after(LEASE_MILLIS + 2_000)
      assert.strictEqual((yield* Fiber.join(starting)).reason._tag, "NoCapacity")
      suspend = 0
      yield* after(5_000)
      assert.strictEqual(yield* Context.get(built, Faults).started, 0)
    })
  )

  test(
    "that return after being lost hand over their workers as orphans, with the workers' output",
    Effect.gen(function*() {
      const pool = yield* WorkerPool
      const found: Array<OrphanedWorker> = []
      const onChange = (change: PoolChange) => Effect.sync(() => void (change._tag === "Orphan" && found.push(change.orphan)))
      yield* Effect.forkScoped(Stream.runForEach(pool.changes ?? Stream.empty, onChange))
      const net = network()
      const { faults } = yield* join("one", net)
      const starting = yield* Effect.forkScoped(begin({ worker: "w-found", print: ["before"] }))
      yield* after(100)
      yield* Fiber.join(starting)
      net.isCut = true
      yield* after(LEASE_MILLIS + 1_000)
      net.isCut = false
      yield* after(10_000)
      assert.deepStrictEqual(found.map(({ endpoint, id, isRunning }) => ({ endpoint, id, isRunning })), [
        { endpoint: EndpointId.make("tested"), id: WorkerId.make("w-found"), isRunning: true }
      ])
      const handle = yield* found[0]!.adopt({ PLATFORM_AI_API_KEY: "stint_worker_secret" })
      yield* handle.drain
      yield* after(1_000)
      const exit = yield* handle.exit
      assert.strictEqual(exit._tag === "Exited" && exit.code, 0)
      assert.deepStrictEqual(yield* faults.running, [])
      yield* after(6_000)
      assert.lengthOf((yield* viewOf("one"))?.workers ?? [], 1, "until its exit has been processed")
      yield* handle.forget ?? Effect.void
      yield* after(6_000)
      assert.deepStrictEqual((yield* viewOf("one"))?.workers, [])
    })
  )

  test(
    "keep their workers after a restart without counting any twice, and workers that they no longer have are lost",
    Effect.gen(function*() {
      const agents = yield* Agents
      const { orders } = yield* agents.report("one", KEY, handReport())
      const starting = yield* Effect.forkScoped(begin({ worker: "w-kept" }))
      const other = yield* Effect.forkScoped(begin({ worker: "w-gone" }))
      yield* after(1)
      const report = (id: string) => ({
        id: WorkerId.make(id),
        endpoint: EndpointId.make("tested"),
        state: "running" as const,
        from: 0,
        lines: [],
        printed: 0
      })
      yield* agents.report(
        "one",
        KEY,
        handReport({ epoch: orders.epoch, number: 2, workers: [report("w-kept"), report("w-gone")] })
      )
      yield* Fiber.join(starting)
      const gone = yield* Fiber.join(other)
      yield* agents.report("one", KEY, handReport({ run: "second", number: 0, workers: [report("w-kept")] }))
      const exit = yield* gone.exit
      assert.deepStrictEqual([exit._tag, exit._tag === "Lost" && exit.mayRun === true], ["Lost", false])
      assert.deepStrictEqual((yield* viewOf("one"))?.workers.map(({ id }) => id), [WorkerId.make("w-kept")])
    })
  )

  test(
    "forget a worker that started although its start had been cancelled",
    Effect.gen(function*() {
      const agents = yield* Agents
      const { orders } = yield* agents.report("one", KEY, handReport())
      const starting = yield* Effect.forkScoped(Effect.scoped(begin({ worker: "w-late" })))
      yield* after(1)
      const cancelling = yield* Effect.forkChild(Fiber.interrupt(starting), { startImmediately: true })
      const killed = {
        id: WorkerId.make("w-late"),
        endpoint: EndpointId.make("tested"),
        state: "ended" as const,
        exit: { _tag: "Killed" as const, signal: "SIGKILL", outOfMemory: false },
        from: 0,
        lines: [],
        printed: 0
      }
      const report = (number: number) => agents.report("one", KEY, handReport({ epoch: orders.epoch, number, workers: [killed] }))
      yield* report(2)
      yield* after(1)
      yield* Fiber.join(cancelling)
      const { orders: next } = yield* report(3)
      assert.deepStrictEqual(next.workers.map(({ wish }) => wish), ["forget"])
    })
  )

  test(
    "cannot claim workers of endpoints that their key does not permit, or that run elsewhere",
    Effect.gen(function*() {
      const pool = yield* WorkerPool
      const found: Array<PoolChange> = []
      yield* Effect.forkScoped(
        Stream.runForEach(pool.changes ?? Stream.empty, (change) => Effect.sync(() => void found.push(change)))
      )
      const agents = yield* Agents
      yield* join("one", network())
      const starting = yield* Effect.forkScoped(begin({ worker: "w-real" }))
      yield* after(100)
      yield* Fiber.join(starting)
      const claim = (id: string, endpoint: string) => ({
        id: WorkerId.make(id),
        endpoint: EndpointId.make(endpoint),
        state: "running" as const,
        from: 0,
        lines: [],
        printed: 0
      })
      const { orders } = yield* agents.report(
        "two",
        { id: "another key", endpoints: ["tested"] },
        handReport({ workers: [claim("w-real", "tested"), claim("w-other", "secret"), claim("w-mine", "tested")] })
      )
      yield* after(100)
      assert.deepStrictEqual(found.map((change) => change._tag === "Orphan" && change.orphan.id), [WorkerId.make("w-mine")])
      assert.deepStrictEqual(orders.workers.map(({ id, wish }) => [id, wish]), [
        [WorkerId.make("w-mine"), "run"],
        [WorkerId.make("w-other"), "forget"]
      ])
      assert.deepStrictEqual((yield* viewOf("one"))?.workers.map(({ id }) => id), [WorkerId.make("w-real")])
    })
  )

  test(
    "store a requested drain, and receive workers again when resumed",
    Effect.gen(function*() {
      const agents = yield* Agents
      const stored: Array<boolean> = []
      yield* join("one", network(), {
        drained: { initial: false, store: (drained) => Effect.sync(() => void stored.push(drained)) }
      })
      yield* agents.drain("one")
      yield* after(100)
      assert.deepStrictEqual(stored, [true])
      assert.include((yield* Effect.flip(Effect.scoped(begin()))).message, "agent one is being drained")
      const pool = yield* WorkerPool
      const room = yield* Effect.forkScoped(Stream.runCollect(Stream.take(pool.changes ?? Stream.empty, 1)))
      yield* agents.resume("one")
      yield* after(100)
      assert.deepStrictEqual([...(yield* Fiber.join(room))], [{ _tag: "Room" }])
      assert.deepStrictEqual(stored, [true, false])
    })
  )

  test(
    "send each line once, even when responses are lost, and the platform redacts the worker's key",
    Effect.gen(function*() {
      lines.length = 0
      const net = network()
      yield* join("one", net)
      const print = [...Array.from({ length: 3_000 }, (_, index) => `line ${index}`), "key stint_worker_secret"]
      const starting = yield* Effect.forkScoped(begin({ print }))
      yield* after(20)
      net.loseAnswers = 3
      net.repeat = 2
      yield* Effect.repeat(after(100), { times: 100 })
      yield* Fiber.join(starting)
      assert.deepStrictEqual(lines.map(({ text }) => text), [...print.slice(0, -1), "key [the worker's key]"])
    })
  )
})

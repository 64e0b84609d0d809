/**
 * Faults of an agent, its machine or its network must not harm the platform, other agents or healthy workers.
 */
import { assert, describe } from "@effect/vitest"
import { AgentWorkerReport, MAX_REPORT_BYTES } from "@stint/contract/Agent"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import { Agents } from "@stint/pool/Agents"
import { CodeTransfer } from "@stint/pool/CodeTransfer"
import { WorkerLog } from "@stint/pool/WorkerLog"
import { MAX_LINE } from "@stint/pool/WorkerOutput"
import { type PoolChange, WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { LEASE_MILLIS } from "../src/Connection.ts"
import { LinkError } from "../src/PlatformLink.ts"
import { after, begin, handReport, join, KEY, layerAgent, linkOver, network, testWith, viewOf } from "./TestAgents.ts"

const printed: Array<string> = []
const test = testWith(Layer.succeed(WorkerLog, { write: ({ text }) => Effect.sync(() => void printed.push(text)) }))

const HASH = "0".repeat(64)

const workerReport = (id: string) => ({
  id: WorkerId.make(id),
  endpoint: EndpointId.make("tested"),
  state: "running" as const,
  from: 0,
  lines: [],
  printed: 0
})

describe("agents", () => {
  test(
    "send no report that is larger than the platform accepts, whatever language their workers print",
    Effect.gen(function*() {
      const net = network()
      yield* join("one", net)
      const starting = yield* Effect.forkScoped(begin({ print: Array.from({ length: 1_000 }, () => "\u5b57".repeat(1_200)) }))
      yield* Effect.repeat(after(100), { times: 40 })
      yield* Fiber.join(starting)
      const sizes = net.reports.map((report) => Buffer.byteLength(JSON.stringify(report)))
      assert.isAtMost(Math.max(...sizes), MAX_REPORT_BYTES)
      assert.isAbove(Math.max(...sizes), MAX_REPORT_BYTES / 4)
    })
  )

  test(
    "report the end of a worker whose start was cancelled, and free its slot",
    Effect.gen(function*() {
      yield* join("one", network())
      const scope = yield* Scope.make()
      const starting = yield* Effect.forkScoped(Scope.provide(begin({ command: "slow" }), scope))
      yield* after(100)
      assert.lengthOf((yield* viewOf("one"))?.workers ?? [], 1)
      const closing = yield* Effect.forkScoped(Effect.andThen(Fiber.interrupt(starting), Scope.close(scope, Exit.void)))
      yield* after(10_000)
      yield* Fiber.join(closing)
      assert.deepStrictEqual((yield* viewOf("one"))?.workers, [])
    })
  )

  test(
    "that stop leave their workers time to finish their jobs",
    Effect.gen(function*() {
      const { faults, scope } = yield* join("one", network(), { shutdownGrace: "30 seconds" })
      const starting = yield* Effect.forkScoped(begin())
      yield* after(100)
      yield* Fiber.join(starting)
      const closing = yield* Effect.forkScoped(Scope.close(scope, Exit.void))
      yield* after(20_000)
      assert.strictEqual((yield* viewOf("one"))?.state, "draining")
      assert.lengthOf(yield* faults.running, 1)
      yield* after(20_000)
      yield* Fiber.join(closing)
      assert.deepStrictEqual(yield* faults.running, [])
    })
  )

  test(
    "that are lost while they start a worker may still run it, so the worker must receive no jobs when it calls",
    Effect.gen(function*() {
      const agents = yield* Agents
      const { orders } = yield* agents.report("one", KEY, handReport())
      const starting = yield* Effect.forkScoped(begin({ worker: "w-pulled" }))
      yield* after(1)
      const workers = [{ ...workerReport("w-pulled"), state: "starting" as const }]
      yield* agents.report("one", KEY, handReport({ epoch: orders.epoch, number: 2, workers }))
      yield* after(LEASE_MILLIS + 1)
      const { exit } = yield* Fiber.join(starting)
      const how = yield* exit
      assert.isTrue(how._tag === "Lost" && how.mayRun)
    })
  )

  test(
    "stay connected while the pool of their machine does not answer",
    Effect.gen(function*() {
      yield* join("one", network())
      const scope = yield* Scope.make()
      const starting = yield* Effect.forkScoped(Scope.provide(begin({ command: "hung" }), scope))
      yield* after(100)
      const handle = yield* Fiber.join(starting)
      yield* after(2 * LEASE_MILLIS)
      assert.strictEqual((yield* viewOf("one"))?.state, "connected", "while its CPU time is measured")
      yield* handle.drain
      yield* after(2 * LEASE_MILLIS)
      assert.strictEqual((yield* viewOf("one"))?.state, "connected", "while it is asked to exit")
      yield* handle.kill
      yield* after(2 * LEASE_MILLIS)
      assert.strictEqual((yield* viewOf("one"))?.state, "connected", "while it is killed")
      const closing = yield* Effect.forkScoped(Scope.close(scope, Exit.void))
      yield* after(10_000)
      yield* Fiber.join(closing)
    })
  )

  test(
    "do not join again when a late copy of their join report arrives",
    Effect.gen(function*() {
      const agents = yield* Agents
      const { orders } = yield* agents.report("one", KEY, handReport({ number: 2 }))
      const late = yield* Effect.flip(agents.report("one", KEY, handReport({ number: 1 })))
      assert.include(late.problem, "epoch of this connection is over")
      yield* agents.report("one", KEY, handReport({ epoch: orders.epoch, number: 3 }))
      // The same process may join again, and so may the next one, which counts from the beginning.
      yield* agents.report("one", KEY, handReport({ number: 4 }))
      yield* agents.report("one", KEY, handReport({ run: "second", number: 1 }))
    })
  )

  test(
    "with a copied data folder do not take the connection from each other in turn",
    Effect.gen(function*() {
      const agents = yield* Agents
      yield* agents.report("one", KEY, handReport())
      const { orders } = yield* agents.report("one", KEY, handReport({ run: "copy" }))
      const refused = yield* Effect.flip(agents.report("one", KEY, handReport({ number: 2 })))
      assert.include(refused.problem, "Another agent with this one's data folder")
      assert.include(refused.hint, "STINT_DATA_DIR")
      yield* agents.report("one", KEY, handReport({ run: "copy", epoch: orders.epoch, number: 2 }))
      yield* after(LEASE_MILLIS + 1)
      yield* agents.report("one", KEY, handReport({ number: 3 }))
    })
  )

  test(
    "whose epoch ends repeatedly wait longer each time before they join",
    Effect.gen(function*() {
      const agents = yield* Agents
      const link = linkOver(agents, "one", network())
      let calls = 0
      const over = new LinkError({ kind: "conflict", problem: "The epoch of this connection is over.", hint: "Join again." })
      // A load balancer in front of two nodes: each join reaches one, and the next calls reach the other.
      const balanced = {
        ...link,
        report: (report: Parameters<typeof link.report>[0]) => {
          calls += 1
          return report.epoch === undefined ? link.report(report) : Effect.fail(over)
        },
        changes: () => Effect.fail(over)
      }
      yield* Layer.build(layerAgent(balanced))
      yield* after(30_000)
      assert.isBelow(calls, 40)
      assert.isAbove(calls, 10)
    })
  )

  test(
    "that join again with a key for fewer endpoints receive no secrets of the others, and end their workers",
    Effect.gen(function*() {
      const agents = yield* Agents
      const { orders } = yield* agents.report("one", KEY, handReport())
      const running = yield* Effect.forkScoped(begin({ worker: "w-running" }))
      yield* after(1)
      const workers = [workerReport("w-running")]
      yield* agents.report("one", KEY, handReport({ epoch: orders.epoch, number: 2, workers }))
      const { exit } = yield* Fiber.join(running)
      const starting = yield* Effect.forkScoped(Effect.flip(Effect.scoped(begin({ worker: "w-ordered" }))))
      yield* after(1)
      const narrow = { id: "another key", endpoints: ["other"] }
      const { orders: later } = yield* agents.report("one", narrow, handReport({ run: "second", workers }))
      assert.deepStrictEqual(later.workers.map(({ id, start, wish }) => `${id} ${wish} ${start?.endpoint.id}`), [
        "w-running forget undefined"
      ])
      assert.include((yield* Fiber.join(starting)).message, "does not permit")
      assert.strictEqual((yield* exit)._tag, "Lost")
    })
  )

  test(
    "that join again before they have stored a drain stay drained",
    Effect.gen(function*() {
      const agents = yield* Agents
      yield* agents.report("one", KEY, handReport())
      yield* agents.drain("one")
      const { orders: again } = yield* agents.report("one", KEY, handReport({ run: "second" }))
      assert.isTrue(again.isDrained)
      yield* after(LEASE_MILLIS + 1)
      assert.strictEqual((yield* viewOf("one"))?.state, "lost")
      const { orders: returned } = yield* agents.report("one", KEY, handReport({ run: "second", number: 2 }))
      assert.isTrue(returned.isDrained)
      // Once the agent has stored it, its reports decide.
      yield* agents.report("one", KEY, handReport({ run: "second", number: 3, epoch: returned.epoch, isDrained: true }))
      yield* after(LEASE_MILLIS + 1)
      const { orders: later } = yield* agents.report("one", KEY, handReport({ run: "third" }))
      assert.isFalse(later.isDrained)
    })
  )

  test(
    "do not announce room when their pool has none, so that endpoints wait between their attempts",
    Effect.gen(function*() {
      const pool = yield* WorkerPool
      const found: Array<PoolChange["_tag"]> = []
      yield* Effect.forkScoped(
        Stream.runForEach(pool.changes ?? Stream.empty, ({ _tag }) => Effect.sync(() => void found.push(_tag)))
      )
      yield* join("one", network())
      yield* Effect.flip(Effect.scoped(begin({ gpus: 64 })))
      const full = yield* Effect.forkScoped(Effect.flip(Effect.scoped(begin({ command: "full" }))))
      yield* after(1_000)
      assert.include((yield* Fiber.join(full)).message, "it is full")
      assert.deepStrictEqual((yield* viewOf("one"))?.workers, [])
      assert.deepStrictEqual(found, [])
      const missing = yield* Effect.forkScoped(Effect.flip(Effect.scoped(begin({ command: "missing" }))))
      yield* after(1_000)
      yield* Fiber.join(missing)
      assert.deepStrictEqual(found, ["Room"])
    })
  )

  test(
    "cannot report a CPU time that no store can add up",
    Effect.sync(() => {
      const isReport = Schema.is(AgentWorkerReport)
      assert.isTrue(isReport({ ...workerReport("w-1"), cpuMs: 12.5 }))
      for (const cpuMs of [1e300, 2 ** 53, -1]) assert.isFalse(isReport({ ...workerReport("w-1"), cpuMs }))
    })
  )

  test(
    "cannot fill the platform's memory with long lines",
    Effect.gen(function*() {
      const agents = yield* Agents
      const { orders } = yield* agents.report("one", KEY, handReport())
      const starting = yield* Effect.forkScoped(begin({ worker: "w-long" }))
      yield* after(1)
      printed.length = 0
      const lines = [`o${"x".repeat(1_000_000)}`, "ehello"]
      yield* agents.report(
        "one",
        KEY,
        handReport({ epoch: orders.epoch, number: 2, workers: [{ ...workerReport("w-long"), lines, printed: 2 }] })
      )
      yield* Fiber.join(starting)
      yield* after(1)
      assert.deepStrictEqual(printed.map(({ length }) => length), [MAX_LINE, 5])
    })
  )

  test(
    "download the code of a release once when several of its workers start",
    Effect.gen(function*() {
      const agents = yield* Agents
      const link = linkOver(agents, "one", network())
      const stored = new Set<string>()
      let downloads = 0
      const codes = Layer.succeed(CodeTransfer, {
        has: (hash: string) => Effect.sync(() => stored.has(hash)),
        read: () => Effect.undefined,
        write: (hash: string) => Effect.sync(() => void stored.add(hash))
      })
      const slow = {
        ...link,
        code: () => Effect.delay(Effect.sync(() => ({ files: { [`file-${++downloads}`]: new Uint8Array() } })), "1 second")
      }
      yield* Layer.build(Layer.provide(layerAgent(slow), codes))
      yield* after(20)
      const starting = yield* Effect.forkScoped(
        Effect.all([begin({ code: "hash" }), begin({ code: "hash" }), begin({ code: "hash" })], { concurrency: "unbounded" })
      )
      yield* after(5_000)
      yield* Fiber.join(starting)
      assert.strictEqual(downloads, 1)
    })
  )

  test(
    "receive code only for workers that they must start",
    Effect.gen(function*() {
      const agents = yield* Agents
      const join = (name: string, key: Parameters<typeof agents.report>[1]) =>
        agents.report(
          name,
          key,
          handReport({ instance: name, capacity: { workers: name === "one" ? 9 : 1, cpus: 1, memoryBytes: 1, gpus: 0 } })
        )
      const narrow = { id: "fedcba9876543210", endpoints: ["other"] }
      const { orders } = yield* join("one", KEY)
      yield* join("two", narrow)
      const starting = yield* Effect.forkScoped(begin({ worker: "w-coded", code: HASH }))
      yield* after(1)
      const problemOf = (name: string, key: string, hash = HASH) =>
        Effect.map(Effect.flip(agents.code(name, key, hash)), ({ problem }) => problem)
      const none = "This agent has no worker to start with this code."
      assert.strictEqual(yield* problemOf("two", narrow.id), none)
      assert.strictEqual(yield* problemOf("one", narrow.id), none, "with the name of another key's agent")
      assert.strictEqual(yield* problemOf("unknown", KEY.id), none)
      assert.strictEqual(yield* problemOf("one", KEY.id, "another hash"), none)
      assert.include(yield* problemOf("one", KEY.id), "This node does not have the code", "which this platform looks up")
      const report = (number: number, state: "starting" | "running") =>
        agents.report(
          "one",
          KEY,
          handReport({ instance: "one", epoch: orders.epoch, number, workers: [{ ...workerReport("w-coded"), state }] })
        )
      yield* report(2, "starting")
      assert.include(yield* problemOf("one", KEY.id), "This node does not have the code", "while it starts")
      yield* report(3, "running")
      yield* Fiber.join(starting)
      assert.strictEqual(yield* problemOf("one", KEY.id), none, "once it runs")
    })
  )

  test(
    "keep the GPUs of their running workers when the platform restarts or finds the workers again",
    Effect.gen(function*() {
      const agents = yield* Agents
      const capacity = { workers: 9, cpus: 8, memoryBytes: 8 * 1024 ** 3, gpus: 2 }
      const found = { ...workerReport("w-found"), reserved: { gpus: 1, cpus: 0, memoryBytes: 0 } }
      const { orders } = yield* agents.report("one", KEY, handReport({ capacity, supports: ["container"], workers: [found] }))
      const refused = yield* Effect.flip(begin({ gpus: 2 }))
      assert.include(refused.message, "agent one has 1 of 2 GPUs free")
      const ended = { ...found, state: "ended" as const, exit: { _tag: "Exited" as const, code: 0 } }
      const change = yield* Effect.flatMap(WorkerPool, ({ changes = Stream.empty }) => Stream.runHead(changes))
      assert.strictEqual(change._tag === "Some" ? change.value._tag : undefined, "Orphan")
      if (change._tag === "Some" && change.value._tag === "Orphan") yield* change.value.orphan.adopt({})
      yield* agents.report(
        "one",
        KEY,
        handReport({ epoch: orders.epoch, number: 2, capacity, supports: ["container"], workers: [ended] })
      )
      yield* agents.report("one", KEY, handReport({ epoch: orders.epoch, number: 3, capacity, supports: ["container"] }))
      const starting = yield* Effect.forkScoped(begin({ gpus: 2 }))
      yield* after(1)
      assert.lengthOf((yield* viewOf("one"))?.workers ?? [], 1)
      yield* Fiber.interrupt(starting)
    })
  )

  test(
    "report what their workers occupy",
    Effect.gen(function*() {
      const net = network()
      yield* join("one", net, { capacity: { workers: 4, cpus: 4, memoryBytes: 1024 ** 3, gpus: 2 } })
      yield* Effect.forkScoped(begin({ gpus: 2 }))
      yield* after(100)
      assert.deepStrictEqual(net.reports.at(-1)?.workers.map(({ reserved }) => reserved), [{ gpus: 2, cpus: 0, memoryBytes: 0 }])
    })
  )

  test(
    "stay connected over a slow uplink while their workers print a lot, and lose no line",
    Effect.gen(function*() {
      printed.length = 0
      // 0.5 Mbit/s
      const net = { ...network(), uplink: 62_500 }
      yield* join("one", net)
      const lines = Array.from({ length: 1_500 }, (_, index) => `${index} ${"x".repeat(2_000)}`)
      const starting = yield* Effect.forkScoped(begin({ print: lines }))
      yield* Effect.repeat(after(250), { times: 400 })
      yield* Fiber.join(starting)
      assert.deepStrictEqual(printed, lines)
      assert.lengthOf(net.reports.filter(({ epoch }) => epoch === undefined), 1, "it joined only once")
    })
  )

  test(
    "send large reports where the network is fast",
    Effect.gen(function*() {
      const net = { ...network(), uplink: 10_000_000 }
      yield* join("one", net)
      const starting = yield* Effect.forkScoped(begin({ print: Array.from({ length: 1_500 }, () => "x".repeat(2_000)) }))
      yield* Effect.repeat(after(50), { times: 100 })
      yield* Fiber.join(starting)
      assert.isAbove(Math.max(...net.reports.map((report) => Buffer.byteLength(JSON.stringify(report)))), 400_000)
    })
  )

  test(
    "without the labels of an endpoint receive none of its workers, and one that joins with them does",
    Effect.gen(function*() {
      yield* join("one", network())
      const refused = yield* Effect.flip(begin({ labels: { gpu: "a100" } }))
      assert.include(refused.message, "no connected agent has the labels gpu=a100")
      const room = yield* Effect.forkScoped(
        Effect.flatMap(WorkerPool, ({ changes = Stream.empty }) => Stream.runHead(changes))
      )
      yield* join("two", network(), { instance: "two", labels: { gpu: "a100", zone: "eu" } })
      assert.deepStrictEqual(yield* Fiber.join(room), Option.some({ _tag: "Room" as const }))
      const starting = yield* Effect.forkScoped(begin({ labels: { gpu: "a100" } }))
      yield* after(100)
      yield* Fiber.join(starting)
      assert.lengthOf((yield* viewOf("two"))?.workers ?? [], 1)
      assert.deepStrictEqual((yield* viewOf("two"))?.labels, { gpu: "a100", zone: "eu" })
    })
  )

  test(
    "are admitted even if many others with other names were lost today",
    Effect.gen(function*() {
      const agents = yield* Agents
      for (let count = 0; count < 1_000; count++) yield* agents.report(`vm-${count}`, KEY, handReport())
      const refused = yield* Effect.flip(agents.report("one", KEY, handReport()))
      assert.include(refused.problem, "1000 agents")
      yield* after(LEASE_MILLIS / 2)
      yield* agents.report("vm-0", KEY, handReport({ number: 2 }))
      yield* after(LEASE_MILLIS / 2 + 1)
      yield* agents.report("one", KEY, handReport())
      assert.lengthOf((yield* agents.list).agents, 1_000)
      assert.strictEqual((yield* viewOf("vm-0"))?.state, "connected")
    })
  )
})

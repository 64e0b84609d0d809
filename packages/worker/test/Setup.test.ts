import { describe, expect, it } from "@effect/vitest"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { FitnessChecks, Handler, Setup, Worker } from "../src/index.ts"
import * as ProcessExit from "../src/runtime/ProcessExit.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import { job, services } from "./MemoryWorker.ts"

const { PLATFORM_WEBHOOK_PING: _, ...onPlatform } = workerEnvironment({
  baseUrl: "http://127.0.0.1:1",
  endpoint: "stub",
  key: "stub-key",
  pingIntervalMs: 10_000,
  prefix: "PLATFORM_"
})

/** What a setup loads. */
class Model extends Context.Service<Model, { readonly name: string }>()("test/Model") {}

const Describe = Handler.make("describe", {
  input: Schema.String,
  output: Schema.String,
  run: (input) => Effect.map(Model, ({ name }) => `${name} says ${input}`)
})

const Echo = Handler.fromFunction(({ input }: { readonly input: unknown }) => input)

/** A worker's services, and records of the process exits and the test's events. */
const machine = (env: Readonly<Record<string, string>> = onPlatform) => {
  const { layer, log } = services(env)
  const exits: Array<number> = []
  const exit = Layer.succeed(
    ProcessExit.ProcessExit,
    (code) => Effect.andThen(Effect.sync(() => exits.push(code)), Effect.never)
  )
  return { exits, log, layer: Layer.merge(layer, exit), events: new Array<string>() }
}

/** Builds the worker until it waits for time to pass. */
const start = <E>(worker: Layer.Layer<never, E, Worker.Services>) =>
  Effect.gen(function*() {
    const fiber = yield* Effect.forkScoped(Layer.build(worker))
    yield* TestClock.adjust(0)
    return fiber
  })

const kinds = Effect.map(Memory, (memory) => memory.calls().map(({ about, kind }) => kind === "ping" ? `ping ${about}` : kind))

const reports = Effect.map(Memory, (memory) => memory.calls().filter(({ kind }) => kind === "ping").map(({ body }) => body))

const notice = (setup_timeout: number) => ({ runpod_version: "0.0.0", status: "setup", setup_timeout })

const failure = (reason: string) => ({ runpod_version: "0.0.0", status: "unhealthy", check: "setup", reason })

// docs/spec/worker-lifecycle.md#setup
describe("the setup of a worker", () => {
  it.effect("runs once, after the fitness checks and before the first take, and gives the handler its services", () => {
    const { events, exits, layer } = machine()
    const setup = Layer.effect(
      Model,
      Effect.gen(function*() {
        events.push("setup began")
        yield* Effect.sleep("1 minute")
        events.push("setup ended")
        return { name: "tiny" }
      })
    )
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* Layer.build(FitnessChecks.layerOf("gpu", Effect.sync(() => void events.push("fitness"))))
      for (const id of ["a", "b"]) yield* memory.submit(job(id, id))
      yield* start(Worker.layerWithSetup(Describe, { layer: setup }))
      expect(events).toEqual(["fitness", "setup began"])
      expect(yield* kinds).toEqual(["ping setup"])
      yield* TestClock.adjust("59 seconds")
      expect(yield* kinds).toEqual(["ping setup"])
      yield* TestClock.adjust("1 second")
      expect(yield* memory.nextDone).toEqual({ id: "a", body: { output: "tiny says a" } })
      expect(yield* memory.nextDone).toEqual({ id: "b", body: { output: "tiny says b" } })
      expect(events).toEqual(["fitness", "setup began", "setup ended"])
      expect(yield* reports).toEqual([notice(420_000)])
      expect(exits).toEqual([])
    }).pipe(Effect.provide(layer))
  })

  it.effect("releases what it has acquired after the last job has ended", () => {
    const { events, layer } = machine({ PLATFORM_SHUTDOWN_GRACE: "60000", ...onPlatform })
    const setup = Layer.effectDiscard(
      Effect.acquireRelease(Effect.sync(() => events.push("opened")), () => Effect.sync(() => events.push("closed")))
    )
    const ending = Promise.withResolvers<void>()
    const slow = Handler.fromFunction(() => ending.promise.then(() => void events.push("job ended")))
    return Effect.gen(function*() {
      const memory = yield* Memory
      const scope = yield* Scope.make()
      yield* Layer.buildWithScope(Worker.layerWithSetup(slow, { layer: setup }), scope)
      yield* memory.submit(job("a"))
      yield* TestClock.adjust(0)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* TestClock.adjust(0)
      expect(events).toEqual(["opened"])
      ending.resolve()
      yield* memory.nextDone
      yield* Fiber.join(closing)
      expect(events).toEqual(["opened", "job ended", "closed"])
    }).pipe(Effect.provide(layer))
  })

  it.effect.each<[string, () => unknown, string]>([
    ["a plain throw", () => JSON.parse("{"), "Expected property name or '}' in JSON at position 1 (line 1 column 2)"],
    ["a rejected promise", () => Promise.reject(new Error("no file\n /models/sd15.")), "no file /models/sd15"],
    ["a rejection without a reason", () => Promise.reject(new Error("")), "Error"]
  ])("%s is reported, ends the process, and no job is taken", ([, run, reason]) => {
    const { exits, layer, log } = machine()
    return Effect.gen(function*() {
      yield* (yield* Memory).submit(job("never taken"))
      const fiber = yield* start(Worker.layerWithSetup(Echo, { layer: Setup.fromFunction(run) }))
      yield* TestClock.adjust(0)
      expect(fiber.pollUnsafe()).toBeUndefined()
      expect(exits).toEqual([1])
      expect(yield* reports).toContainEqual(failure(reason))
      expect(yield* kinds).not.toContain("take")
      const [first, second] = log.filter(({ level }) => level === "ERROR").map(({ message }) => message)
      expect(first).toMatch(/^The setup failed after \d+ ms: \w*Error/)
      expect(second).toBe("This worker takes no jobs and exits with code 1, because its setup failed.")
    }).pipe(Effect.provide(layer))
  })

  it.effect.each<[string, Record<string, string>, Setup.Setup<never, never>["timeout"], number]>([
    ["the default", {}, undefined, 420_000],
    ["the limit in the code", {}, "20 minutes", 1_200_000],
    ["the limit in the variable", { PLATFORM_SETUP_TIMEOUT: "5000" }, "20 minutes", 5_000],
    ["at most a day", { PLATFORM_SETUP_TIMEOUT: "999999999" }, undefined, 86_400_000]
  ])("a setup that exceeds its limit is aborted and fails: %s", ([, env, timeout, limit]) => {
    const { events, exits, layer } = machine({ ...onPlatform, ...env })
    const hanging = Setup.fromFunction(({ signal }) => {
      signal.addEventListener("abort", () => events.push("aborted"))
      return new Promise(() => {})
    })
    return Effect.gen(function*() {
      yield* start(Worker.layerWithSetup(Echo, { layer: hanging, timeout }))
      yield* TestClock.adjust(limit - 1)
      expect({ events, exits }).toEqual({ events: [], exits: [] })
      yield* TestClock.adjust(1)
      expect({ events, exits }).toEqual({ events: ["aborted"], exits: [1] })
      expect(yield* reports).toEqual([notice(limit), failure(`it did not end within ${limit / 1_000} s`)])
    }).pipe(Effect.provide(layer))
  })

  it.effect("the notice is repeated while the platform does not respond, and does not delay the setup", () => {
    const { layer } = machine()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("ping", 2, "unreachable")
      yield* start(Worker.layerWithSetup(Echo, { layer: Layer.effectDiscard(Effect.sleep("10 seconds")) }))
      expect(yield* reports).toHaveLength(1)
      yield* TestClock.adjust("5 seconds")
      expect(yield* reports).toEqual([notice(420_000), notice(420_000), notice(420_000)])
      yield* TestClock.adjust("5 seconds")
      yield* memory.submit(job("a", "one"))
      expect(yield* memory.nextDone).toEqual({ id: "a", body: { output: "one" } })
    }).pipe(Effect.provide(layer))
  })

  it.effect("a platform that rejects the notice does not receive it again, and the worker takes jobs", () => {
    const { layer } = machine()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("ping", 1, 400)
      yield* start(Worker.layerWithSetup(Echo, { layer: Layer.effectDiscard(Effect.sleep("10 seconds")) }))
      yield* TestClock.adjust("10 seconds")
      expect((yield* kinds).filter((kind) => kind !== "stops")).toEqual(["ping setup", "take"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a worker that is stopped during its setup aborts it and reports nothing", () => {
    const { events, exits, layer } = machine()
    const hanging = Setup.fromFunction(({ signal }) => {
      signal.addEventListener("abort", () => events.push("aborted"))
      return new Promise(() => {})
    })
    return Effect.gen(function*() {
      const fiber = yield* start(Worker.layerWithSetup(Echo, { layer: hanging }))
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust(0)
      expect({ events, exits }).toEqual({ events: ["aborted"], exits: [] })
      expect(yield* reports).toEqual([notice(420_000)])
    }).pipe(Effect.provide(layer))
  })

  it.effect("sends no notice in local test mode, and runs", () => {
    const { events, layer } = machine({})
    return Effect.gen(function*() {
      yield* start(Worker.layerWithSetup(Echo, { layer: Setup.fromFunction(() => events.push("setup")) }))
      yield* TestClock.adjust(0)
      expect(events).toEqual(["setup"])
      expect(yield* reports).toEqual([])
    }).pipe(Effect.provide(layer))
  })
})

import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { Handler } from "../src/index.ts"
import { ProcessExit } from "../src/runtime/ProcessExit.ts"
import { Shutdown } from "../src/runtime/Shutdown.ts"
import * as Worker from "../src/runtime/Worker.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import { job, services } from "./MemoryWorker.ts"

const settle = TestClock.adjust(0)

/** Starts a worker in its own scope and returns the effect that closes the scope. */
const startIn = Effect.fnUntraced(function*(handler: Handler.Runnable, options: Worker.Options = {}) {
  const scope = yield* Scope.make()
  yield* Layer.buildWithScope(Worker.layer(handler, options), scope)
  return { close: Effect.forkChild(Scope.close(scope, Exit.void)) }
})

/** A handler that blocks until the test releases it. */
const gate = () => {
  let open = () => {}
  const handler = Handler.fromFunction(() =>
    new Promise<string>((resolve) => {
      open = () => resolve("done")
    })
  )
  return { handler, open: () => open() }
}

const pings = (memory: Memory["Service"]) => memory.calls().filter(({ kind }) => kind === "ping").map(({ body }) => body)
const version = { runpod_version: "0.0.0" }

describe("the shutdown of a worker", () => {
  it.effect("an idle worker sends the exit ping and ends", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      const { close } = yield* startIn(gate().handler)
      yield* settle
      yield* Fiber.join(yield* close)
      expect(pings(memory)).toEqual([{ ...version, status: "exiting" }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("takes no more jobs, delivers the running ones however long they take, and sends an exit ping before and after that", () => {
    const { layer } = services({})
    const { handler, open } = gate()
    return Effect.gen(function*() {
      const memory = yield* Memory
      const { close } = yield* startIn(handler, { concurrencyModifier: () => 2 })
      yield* memory.submit(job("j1"))
      yield* settle
      const closing = yield* close
      yield* memory.submit(job("j2"))
      yield* TestClock.adjust("1 hour")
      expect(closing.pollUnsafe()).toBeUndefined()
      expect(pings(memory)).toEqual([{ ...version, status: "exiting", job_id: ["j1"] }])
      open()
      yield* Fiber.join(closing)
      expect(yield* memory.nextDone).toEqual({ id: "j1", body: { output: "done" } })
      expect(pings(memory).at(-1)).toEqual({ ...version, status: "exiting" })
      expect(memory.calls().filter(({ kind }) => kind === "done")).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("interrupts jobs that are still running after the grace period and names them in the log", () => {
    const { layer, log } = services({ PLATFORM_SHUTDOWN_GRACE: "5000" })
    return Effect.gen(function*() {
      const memory = yield* Memory
      const events: Array<string> = []
      const { close } = yield* startIn(
        Handler.fromFunction((_job, { signal }) =>
          new Promise<void>((resolve) =>
            signal.addEventListener("abort", () => {
              events.push("aborted")
              resolve()
            })
          )
        )
      )
      yield* memory.submit(job("j1"))
      yield* settle
      const closing = yield* close
      yield* TestClock.adjust(4_999)
      expect(events).toEqual([])
      yield* TestClock.adjust(1)
      yield* Fiber.join(closing)
      expect(events).toEqual(["aborted"])
      expect(memory.calls().filter(({ kind }) => kind === "done")).toEqual([])
      expect(log.find(({ level }) => level === "WARN")?.message).toMatch(/shutdown grace of 5000 ms has ended.*j1/)
      expect(pings(memory).at(-1)).toEqual({ ...version, status: "exiting" })
    }).pipe(Effect.provide(layer))
  })

  it.effect("sends the lease tokens of the held jobs with the exit ping", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      const { close } = yield* startIn(gate().handler, { concurrencyModifier: () => 2 })
      yield* memory.submit(job("j1"))
      yield* memory.submit({ ...job("j2"), leaseToken: "1.token" })
      yield* settle
      yield* Fiber.join(yield* close)
      expect(pings(memory)[0]).toEqual({ ...version, status: "exiting", job_id: ["j1", "j2"], lease_token: ["", "1.token"] })
    }).pipe(Effect.provide(layer))
  })

  it.effect.each<[string, { readonly [name: string]: string }, number]>([
    ["the given time", {}, 30_000],
    ["a shorter grace period", { PLATFORM_SHUTDOWN_GRACE: "5000" }, 5_000]
  ])("abandons the jobs that may have caused the shutdown after %s, without returning them", ([, env, limit]) => {
    const { layer, log } = services(env)
    const exits: Array<number> = []
    const { handler, open } = gate()
    const exit = (code: number) => Effect.andThen(Effect.sync(() => void exits.push(code)), Effect.die("the process has exited"))
    return Effect.gen(function*() {
      const memory = yield* Memory
      const shutdown = yield* Shutdown
      const { close } = yield* startIn(handler)
      yield* memory.submit(job("j1"))
      yield* settle
      yield* shutdown.request({ reason: "the test", exitCode: 1, abandonAfter: 30_000 })
      yield* close
      yield* TestClock.adjust(limit - 1)
      expect(exits).toEqual([])
      yield* TestClock.adjust(1)
      expect(exits).toEqual([1])
      open()
      expect(pings(memory)).toEqual([{ ...version, status: "exiting", job_id: ["j1"] }])
      expect(memory.calls().filter(({ kind }) => kind === "done")).toEqual([])
      expect(log.find(({ level }) => level === "ERROR")?.message)
        .toBe(`The worker exits with code 1 after waiting ${limit} ms, and abandons 1 running job: j1.`)
    }).pipe(Effect.provide(layer), Effect.provideService(ProcessExit, exit))
  })

  it.effect("a lost exit ping is not an error", () => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("ping", 1, "unreachable")
      const { close } = yield* startIn(gate().handler)
      yield* settle
      yield* Fiber.join(yield* close)
      expect(log.filter(({ level }) => level === "ERROR" || level === "WARN")).toEqual([])
    }).pipe(Effect.provide(layer))
  })
})

describe("a request to recycle the worker", () => {
  it.effect.each<[string, unknown, Worker.Options]>([
    ["by a result", { refresh_worker: true }, {}],
    ["by the config", null, { refreshWorker: true }]
  ])("%s sets stopPod in the result and shuts the worker down", ([, result, options]) => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      const shutdown = yield* Shutdown
      yield* startIn(Handler.fromFunction(() => result), options)
      yield* memory.submit(job("j1"))
      expect((yield* memory.nextDone).body).toMatchObject({ stopPod: true })
      expect(yield* shutdown.requested).toMatchObject({ exitCode: 0 })
    }).pipe(Effect.provide(layer))
  })
})

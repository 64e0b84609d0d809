import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { Handler } from "../src/index.ts"
import { Shutdown } from "../src/runtime/Shutdown.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import { job, services, start } from "./MemoryWorker.ts"

const big = Handler.fromFunction(() => "x".repeat(1000))
const settle = TestClock.adjust(0)

const bodies = (memory: Memory["Service"], kind: "done" | "chunk") =>
  memory.calls().filter((call) => call.kind === kind).map(({ body }) => body)

describe("a result", () => {
  it.effect.each<[string, number | "unreachable"]>([
    ["the platform is unreachable", "unreachable"],
    ["the platform returns 500", 500],
    ["the store is unavailable", 503],
    ["there are too many requests", 429]
  ])("is retried until it is accepted while %s", ([, how]) => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("done", 20, how)
      yield* start(big)
      yield* memory.submit(job("j1"))
      yield* TestClock.adjust("3 minutes")
      expect((yield* memory.nextDone).id).toBe("j1")
      expect(bodies(memory, "done")).toHaveLength(21)
      expect(log.filter(({ level }) => level === "WARN")).toHaveLength(1)
      expect(log.filter(({ message }) => message.startsWith("Delivered the result after 20"))).toHaveLength(1)
      expect(log.every(({ level, requestId }) => level !== "WARN" || requestId === "j1")).toBe(true)
    }).pipe(Effect.provide(layer))
  })

  it.effect("is retried with growing waits of at most five seconds", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("done", 100, 500)
      yield* start(big)
      yield* memory.submit(job("j1"))
      yield* TestClock.adjust("1 second")
      expect(bodies(memory, "done").length).toBeGreaterThanOrEqual(4)
      expect(bodies(memory, "done").length).toBeLessThanOrEqual(6)
      yield* TestClock.adjust("1 minute")
      const after = bodies(memory, "done").length
      yield* TestClock.adjust("50 seconds")
      expect(bodies(memory, "done").length - after).toBeGreaterThanOrEqual(10)
      expect(bodies(memory, "done").length - after).toBeLessThanOrEqual(20)
    }).pipe(Effect.provide(layer))
  })

  it.effect("is dropped with one warning when the worker no longer holds the job", () => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("done", 1, 409)
      yield* start(big)
      yield* memory.submit(job("j1"))
      yield* memory.submit(job("j2"))
      expect((yield* memory.nextDone).id).toBe("j2")
      expect(bodies(memory, "done")).toHaveLength(2)
      expect(log.filter(({ level }) => level === "WARN" || level === "ERROR")).toEqual([{
        level: "WARN",
        message: expect.stringMatching(/no longer holds the job.*409/),
        requestId: "j1"
      }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("is dropped with an error when the platform does not know the job", () => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("done", 1, 404)
      yield* start(big)
      yield* memory.submit(job("j1"))
      yield* memory.submit(job("j2"))
      expect((yield* memory.nextDone).id).toBe("j2")
      expect(log.filter(({ level }) => level === "ERROR")).toMatchObject([{
        requestId: "j1",
        message: expect.stringMatching(/404/)
      }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("is replaced by a failure with the reason when it is too large", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("done", 1, 413)
      yield* start(big)
      yield* memory.submit(job("j1"))
      expect((yield* memory.nextDone).body).toEqual({ error: expect.stringMatching(/refused the result of 10\d\d bytes.*413/) })
      expect(bodies(memory, "done")).toHaveLength(2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("is replaced by a failure after three 400 responses, and is dropped when that is refused too", () => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("done", 3, 400)
      yield* start(big)
      yield* memory.submit(job("j1"))
      yield* TestClock.adjust("10 seconds")
      expect((yield* memory.nextDone).body).toEqual({ error: expect.stringMatching(/a fault of the test/) })
      expect(bodies(memory, "done")).toHaveLength(4)
      yield* memory.failNext("done", 2, 413)
      yield* memory.submit(job("j2"))
      yield* memory.submit(job("j3"))
      yield* TestClock.adjust("10 seconds")
      expect((yield* memory.nextDone).id).toBe("j3")
      expect(log.filter(({ requestId }) => requestId === "j2").at(-1)).toMatchObject({
        level: "ERROR",
        message: expect.stringMatching(/Giving up/)
      })
    }).pipe(Effect.provide(layer))
  })

  it.effect("is retried slowly when the key is refused, and the log says what to check", () => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("done", 3, 401)
      yield* start(big)
      yield* memory.submit(job("j1"))
      yield* TestClock.adjust("2 seconds")
      expect(bodies(memory, "done")).toHaveLength(1)
      yield* TestClock.adjust("1 minute")
      expect((yield* memory.nextDone).id).toBe("j1")
      expect(log.filter(({ level }) => level === "ERROR")).toMatchObject([{
        message: expect.stringMatching(/PLATFORM_AI_API_KEY/)
      }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("is retried for 30 s while the worker shuts down and is then logged as lost", () => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      const shutdown = yield* Shutdown
      yield* memory.failNext("done", 1000, "unreachable")
      yield* start(big)
      yield* memory.submit(job("j1"))
      yield* TestClock.adjust("2 minutes")
      yield* shutdown.request({ reason: "the test", exitCode: 0 })
      yield* TestClock.adjust("24 seconds")
      const lost = () => log.filter(({ message }) => message.startsWith("The result is lost"))
      expect(lost()).toEqual([])
      yield* TestClock.adjust("6 seconds")
      expect(lost()).toMatchObject([{ level: "ERROR", requestId: "j1" }])
    }).pipe(Effect.provide(layer))
  })
})

describe("a handler that changes its job", () => {
  it.effect("does not redirect its chunks or its result to another job", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(Handler.fromFunction(function*(given: { id: string }) {
        given.id = "j2"
        yield 1
      }))
      yield* memory.submit(job("j1"))
      expect(yield* memory.nextDone).toEqual({ id: "j1", body: { output: [] } })
      expect(memory.calls().filter(({ kind }) => kind === "chunk")).toEqual([{ kind: "chunk", about: "j1", body: { output: 1 } }])
    }).pipe(Effect.provide(layer))
  })
})

describe("chunks", () => {
  const three = Handler.fromFunction(async function*() {
    yield 1
    yield 2
    yield 3
  })

  it.effect("are sent in order, each after the previous one is accepted, and the result follows", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("chunk", 2, 500)
      yield* start(three)
      yield* memory.submit(job("j1"))
      yield* TestClock.adjust("1 minute")
      expect((yield* memory.nextDone).body).toEqual({ output: [] })
      expect(bodies(memory, "chunk")).toEqual([{ output: 1 }, { output: 1 }, { output: 1 }, { output: 2 }, { output: 3 }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("end the handler when the worker no longer holds the job, and nothing more is sent", () => {
    const { layer } = services()
    const events: Array<string> = []
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("chunk", 1, 409)
      yield* start(Handler.fromFunction(function*() {
        try {
          yield 1
          events.push("went on")
        } finally {
          events.push("finally")
        }
      }))
      yield* memory.submit(job("j1"))
      yield* settle
      yield* TestClock.adjust("1 minute")
      expect(events).toEqual(["finally"])
      expect(bodies(memory, "done")).toEqual([])
    }).pipe(Effect.provide(layer))
  })

  it.effect("fail the job with the reason when they are too large", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("chunk", 1, 413)
      yield* start(three)
      yield* memory.submit(job("j1"))
      expect((yield* memory.nextDone).body).toEqual({
        error: expect.stringMatching(/refused a chunk of 12 bytes.*smaller chunks/)
      })
    }).pipe(Effect.provide(layer))
  })
})

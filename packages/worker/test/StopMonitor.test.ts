import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { Handler } from "../src/index.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import { job, services, start } from "./MemoryWorker.ts"

const settle = TestClock.adjust(0)

/** Jobs that run until they are stopped, and the recorded events. */
const stoppable = () => {
  const events: Array<string> = []
  const handler = Handler.fromFunction((taken, { signal }) => {
    events.push(`${String(taken.input)} started`)
    return new Promise<void>((resolve) =>
      signal.addEventListener("abort", () => {
        events.push(`${String(taken.input)} stopped`)
        resolve()
      })
    )
  })
  return { handler, events }
}

describe("a stop", () => {
  it.effect("ends its job without a delivery and does not affect other jobs", () => {
    const { layer } = services()
    const { events, handler } = stoppable()
    return Effect.gen(function*() {
      const memory = yield* Memory
      for (const n of [1, 2]) yield* memory.submit(job(`j${n}`, n))
      yield* start(handler, { concurrencyModifier: () => 2 })
      yield* settle
      yield* memory.stop("j1")
      yield* settle
      expect(events).toEqual(["1 started", "2 started", "1 stopped"])
      yield* memory.submit(job("j3", 3))
      yield* settle
      expect(events.at(-1)).toBe("3 started")
      expect(memory.calls().filter(({ kind }) => kind === "done")).toEqual([])
    }).pipe(Effect.provide(layer))
  })

  it.effect("that arrives before its job is repeated once", () => {
    const { layer } = services()
    const { events, handler } = stoppable()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(handler)
      yield* memory.stop("j1")
      yield* settle
      yield* memory.submit(job("j1", 1))
      yield* settle
      expect(events).toEqual(["1 started"])
      yield* TestClock.adjust("1 second")
      expect(events).toEqual(["1 started", "1 stopped"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("interrupts an Effect and runs its finalizers", () => {
    const { layer } = services()
    const events: Array<string> = []
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.submit(job("j1"))
      yield* start({
        ...Handler.fromFunction(() => null),
        run: () => Effect.never.pipe(Effect.onInterrupt(() => Effect.sync(() => void events.push("finalizer"))))
      })
      yield* settle
      yield* memory.stop("j1")
      yield* settle
      expect(events).toEqual(["finalizer"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("R8: the worker listens for stops again within 1 s after each lost connection", () => {
    const { layer } = services()
    const { events, handler } = stoppable()
    return Effect.gen(function*() {
      const memory = yield* Memory
      const asked = () => memory.calls().filter(({ kind }) => kind === "stops").length
      yield* memory.submit(job("j1", 1))
      yield* memory.failNext("stops", 100, "unreachable")
      yield* start(handler)
      for (let before = 0; asked() <= 100;) {
        before = asked()
        yield* TestClock.adjust("1 second")
        expect(asked()).toBeGreaterThan(before)
      }
      yield* memory.stop("j1")
      yield* settle
      expect(events).toEqual(["1 started", "1 stopped"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a platform without the route is polled less and less often, and logs stay at DEBUG", () => {
    const { layer, log } = services()
    const { handler } = stoppable()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("stops", 1000, 404)
      yield* start(handler)
      yield* TestClock.adjust("5 minutes")
      const asked = memory.calls().filter(({ kind }) => kind === "stops").length
      expect(asked).toBeGreaterThan(20)
      expect(asked).toBeLessThan(70)
      expect(log.filter(({ level }) => level !== "DEBUG" && level !== "TRACE")).toEqual([])
      expect(log.filter(({ message }) => message.startsWith("Cannot poll for stop requests"))).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  })
})

import { describe, expect, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { Handler } from "../src/index.ts"
import { Shutdown } from "../src/runtime/Shutdown.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import { JobSource } from "../src/transport/JobSource.ts"
import { job, services, start } from "./MemoryWorker.ts"

const echo = Handler.fromFunction((taken) => taken.input)

/** A handler whose jobs wait until the test releases them by their input, or until the test ends. */
const gates = () => {
  const open = new Map<unknown, () => void>()
  const handler = Handler.fromFunction((taken, { signal }) =>
    new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve())
      open.set(taken.input, resolve)
    })
  )
  return { handler, running: () => [...open.keys()], finish: (input: unknown) => (open.get(input)?.(), open.delete(input)) }
}

/** Runs everything that can run without time passing. */
const settle = TestClock.adjust(0)

describe("taking jobs", () => {
  it.effect("takes one job after the other, each when the previous result is delivered", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(echo)
      for (const n of [1, 2, 3]) yield* memory.submit(job(`j${n}`, n))
      for (const n of [1, 2, 3]) expect(yield* memory.nextDone).toEqual({ id: `j${n}`, body: { output: n } })
      yield* settle
      const calls = memory.calls().filter(({ kind }) => kind === "take" || kind === "done").map(({ about, kind }) =>
        `${kind} ${about}`
      )
      expect(calls).toEqual(["take 1", "done j1", "take 1", "done j2", "take 1", "done j3", "take 1"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("does not take a job while the only slot is in use", () => {
    const { layer } = services()
    const { finish, handler, running } = gates()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(handler)
      yield* memory.submit(job("j1", 1))
      yield* memory.submit(job("j2", 2))
      yield* TestClock.adjust("10 minutes")
      expect(running()).toEqual([1])
      finish(1)
      yield* memory.nextDone
      yield* settle
      expect(running()).toEqual([2])
    }).pipe(Effect.provide(layer))
  })

  it.effect("runs the next job while a result is in flight, and no third job while two results are", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("done", 2, "unreachable")
      yield* start(echo)
      for (const n of [1, 2, 3]) yield* memory.submit(job(`j${n}`, n))
      yield* settle
      const calls = () =>
        memory.calls().filter(({ kind }) => kind === "take" || kind === "done").map(({ about, kind }) => `${kind} ${about}`)
      expect(calls()).toEqual(["take 1", "done j1", "take 1", "done j2"])
      yield* TestClock.adjust("1 second")
      expect(calls().toSorted()).toEqual([
        ...["done j1", "done j1", "done j2", "done j2", "done j3"],
        ...["take 1", "take 1", "take 1", "take 1"]
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("takes no job after a result recycles the worker", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("done", 1, "unreachable")
      yield* start(Handler.fromFunction(() => ({ refresh_worker: true })))
      yield* memory.submit(job("j1", 1))
      yield* memory.submit(job("j2", 2))
      yield* settle
      expect(memory.calls().filter(({ kind }) => kind === "take")).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits five seconds after a 429", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("take", 2, 429)
      yield* start(echo)
      const takes = () => memory.calls().filter(({ kind }) => kind === "take").length
      yield* settle
      expect(takes()).toBe(1)
      yield* TestClock.adjust(4_999)
      expect(takes()).toBe(1)
      yield* TestClock.adjust(1)
      expect(takes()).toBe(2)
      yield* TestClock.adjust(5_000)
      expect(takes()).toBe(3)
    }).pipe(Effect.provide(layer))
  })

  it.effect("retries with growing waits during an outage, and logs its start and its end once each", () => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("take", 8, "unreachable")
      yield* memory.failNext("take", 1, 500)
      yield* start(echo)
      yield* memory.submit(job("j1"))
      yield* TestClock.adjust(100)
      expect(memory.calls().filter(({ kind }) => kind === "take").length).toBeLessThanOrEqual(2)
      yield* TestClock.adjust("45 seconds")
      expect((yield* memory.nextDone).id).toBe("j1")
      expect(log.filter(({ message }) => message.startsWith("Cannot take jobs"))).toEqual([{
        level: "ERROR",
        message: "Cannot take jobs: the platform does not answer (ECONNREFUSED). Retrying until it does.",
        requestId: undefined
      }])
      expect(log.filter(({ message }) => message === "Taking jobs again.")).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("exits when the platform has not responded for longer than the limit", () => {
    const { layer } = services({ PLATFORM_UNREACHABLE_LIMIT: "60000" })
    return Effect.gen(function*() {
      const memory = yield* Memory
      const shutdown = yield* Shutdown
      yield* memory.failNext("take", 1_000, "unreachable")
      yield* start(echo)
      const stopping = yield* Effect.forkChild(shutdown.requested)
      yield* TestClock.adjust(59_999)
      expect(stopping.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust("6 seconds")
      expect(yield* Fiber.join(stopping)).toEqual({
        reason: expect.stringMatching(/^the platform has not answered for 6\d{4} ms$/),
        exitCode: 1
      })
    }).pipe(Effect.provide(layer))
  })

  it.effect("any response, even an error, restarts the limit", () => {
    const { layer } = services({ PLATFORM_UNREACHABLE_LIMIT: "60000" })
    return Effect.gen(function*() {
      const memory = yield* Memory
      const shutdown = yield* Shutdown
      yield* memory.failNext("take", 10, "unreachable")
      yield* memory.failNext("take", 1, 500)
      yield* memory.failNext("take", 10, "unreachable")
      yield* start(echo)
      const stopping = yield* Effect.forkChild(shutdown.requested)
      yield* memory.submit(job("j1"))
      yield* TestClock.adjust("5 minutes")
      expect((yield* memory.nextDone).id).toBe("j1")
      expect(stopping.pollUnsafe()).toBeUndefined()
      expect(memory.calls().filter(({ kind }) => kind === "take").length).toBeGreaterThan(21)
    }).pipe(Effect.provide(layer))
  })

  it.effect("logs what to check when the key is refused", () => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("take", 1, 401)
      yield* start(echo)
      yield* settle
      expect(log.find(({ level }) => level === "ERROR")?.message).toMatch(/answered 401.*PLATFORM_AI_API_KEY/)
    }).pipe(Effect.provide(layer))
  })
})

/** A transport with scripted takes: how long each one is held, and whether it returns a job. Later takes are held forever. */
const scripted = (takes: ReadonlyArray<{ readonly held: number; readonly job?: true }>) => {
  const asked: Array<number> = []
  const script = [...takes]
  const wrap = (source: JobSource["Service"]): JobSource["Service"] => ({
    ...source,
    take: () =>
      Effect.gen(function*() {
        const started = yield* Clock.currentTimeMillis
        asked.push(started)
        const next = script.shift()
        if (next === undefined) return yield* Effect.never
        yield* Effect.sleep(next.held)
        return next.job === true ? [job(`j${asked.length}`)] : []
      })
  })
  /** Runs the script, and returns the pause before each take except the first. */
  const pauses = Effect.gen(function*() {
    yield* Effect.provideService(start(echo), JobSource, wrap(yield* JobSource))
    yield* TestClock.adjust("5 minutes")
    return takes.map(({ held }, index) => (asked[index + 1] ?? Number.NaN) - (asked[index] ?? Number.NaN) - held)
  })
  return Effect.provide(pauses, services().layer)
}

/** The bounds of the pause after the nth consecutive empty take that returned too fast. */
const expectEmptyPollPause = (pause: number | undefined, n: number) => {
  const longest = Math.min(1_000, 50 * 2 ** (n - 1))
  expect(pause).toBeGreaterThanOrEqual(longest / 2)
  expect(pause).toBeLessThanOrEqual(longest)
}

describe("an empty response", () => {
  const fast = { held: 0 }

  it.effect("that arrives too fast for a long poll is followed by growing pauses", () =>
    Effect.gen(function*() {
      const pauses = yield* scripted([fast, fast, fast, fast, fast, fast, fast, fast])
      for (const [index, pause] of pauses.entries()) expectEmptyPollPause(pause, index + 1)
    }))

  it.effect("after 999 ms is too fast, and after 1000 ms is a long poll without a pause", () =>
    Effect.gen(function*() {
      const [tooFast, longPoll] = yield* scripted([{ held: 999 }, { held: 1_000 }])
      expectEmptyPollPause(tooFast, 1)
      expect(longPoll).toBe(0)
    }))

  it.effect("of a long poll resets the pauses", () =>
    Effect.gen(function*() {
      const pauses = yield* scripted([fast, fast, fast, fast, { held: 30_000 }, fast])
      expectEmptyPollPause(pauses[3], 4)
      expect(pauses[4]).toBe(0)
      expectEmptyPollPause(pauses[5], 1)
    }))

  it.effect("after a job is followed by the first pause again", () =>
    Effect.gen(function*() {
      const pauses = yield* scripted([fast, fast, fast, fast, { held: 0, job: true }, fast])
      expectEmptyPollPause(pauses[3], 4)
      expect(pauses[4]).toBe(0)
      expectEmptyPollPause(pauses[5], 1)
    }))
})

describe("concurrency", () => {
  it.effect("is a number of jobs, which are taken as a batch", () => {
    const { layer } = services()
    const { handler, running } = gates()
    return Effect.gen(function*() {
      const memory = yield* Memory
      for (const n of [1, 2, 3, 4]) yield* memory.submit(job(`j${n}`, n))
      yield* start(handler, { concurrency: 3 })
      yield* settle
      expect(running()).toEqual([1, 2, 3])
    }).pipe(Effect.provide(layer))
  })

  it.effect("grows and shrinks while jobs run when it is a function", () => {
    const { layer, log } = services()
    const { finish, handler, running } = gates()
    let wanted = 1
    return Effect.gen(function*() {
      const memory = yield* Memory
      for (const n of [1, 2, 3, 4, 5, 6]) yield* memory.submit(job(`j${n}`, n))
      yield* start(handler, { concurrency: () => wanted })
      yield* settle
      expect(running()).toEqual([1])
      wanted = 3
      yield* TestClock.adjust("1 second")
      expect(running()).toEqual([1, 2, 3])
      wanted = 2
      for (const n of [1, 2]) {
        finish(n)
        yield* memory.nextDone
        yield* settle
      }
      yield* TestClock.adjust("1 second")
      expect(running()).toEqual([3, 4])
      expect(log.map(({ message }) => message).filter((message) => message.includes("at once now"))).toEqual([
        "Up to 3 jobs can run at once now (before: 1).",
        "Up to 2 jobs can run at once now (before: 3)."
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect.each([0, 1.5, Number.NaN])("%s prevents the start, because it is not a number of jobs", (concurrency) => {
    const { layer } = services()
    return Effect.gen(function*() {
      const exit = yield* Effect.exit(start(echo, { concurrency }))
      expect(JSON.stringify(exit)).toContain("Die")
    }).pipe(Effect.provide(layer))
  })
})

// docs/spec/worker-lifecycle.md#concurrency
describe("concurrency_modifier", () => {
  it.effect("sets the number of concurrent jobs, which are taken as a batch", () => {
    const { layer } = services()
    const { finish, handler, running } = gates()
    return Effect.gen(function*() {
      const memory = yield* Memory
      for (const n of [1, 2, 3, 4]) yield* memory.submit(job(`j${n}`, n))
      yield* start(handler, { concurrencyModifier: () => 3 })
      yield* settle
      expect(running()).toEqual([1, 2, 3])
      expect(memory.calls().filter(({ kind }) => kind === "take").map(({ about }) => about)).toEqual(["3"])
      finish(2)
      yield* memory.nextDone
      yield* settle
      expect(running()).toEqual([1, 3, 4])
      expect(memory.calls().filter(({ kind }) => kind === "take").map(({ about }) => about)).toEqual(["3", "1"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("is called before each take with the current number", () => {
    const { layer } = services()
    const asked: Array<number> = []
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(echo, { concurrencyModifier: (current) => (asked.push(current), Math.min(3, current + 1)) })
      for (const n of [1, 2, 3]) {
        yield* memory.submit(job(`j${n}`))
        yield* memory.nextDone
      }
      yield* settle
      expect(asked.slice(0, 4)).toEqual([1, 2, 3, 3])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a change waits until no job is in flight, is checked once a second, and delays all takes", () => {
    const { layer, log } = services()
    const { finish, handler, running } = gates()
    let wanted = 2
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(handler, { concurrencyModifier: () => wanted })
      yield* memory.submit(job("j1", 1))
      yield* settle
      wanted = 5
      yield* memory.submit(job("j2", 2))
      yield* settle
      for (const n of [3, 4]) yield* memory.submit(job(`j${n}`, n))
      yield* TestClock.adjust("1 minute")
      expect(running()).toEqual([1, 2])
      finish(1)
      finish(2)
      yield* memory.nextDone
      yield* memory.nextDone
      yield* settle
      expect(running()).toEqual([])
      yield* TestClock.adjust("1 second")
      expect(running()).toEqual([3, 4])
      expect(log.map(({ message }) => message)).toContain("Up to 5 jobs can run at once now (before: 2).")
    }).pipe(Effect.provide(layer))
  })

  it.effect.each<[string, () => number, RegExp]>([
    ["throws", () => {
      throw new Error("no idea")
    }, /threw no idea.*stays 1/],
    ["returns 0", () => 0, /returned 0.*stays 1/],
    ["returns a fraction", () => 1.5, /returned 1.5.*stays 1/],
    ["returns NaN", () => NaN, /returned NaN.*stays 1/]
  ])("that %s changes nothing and is logged", ([, concurrencyModifier, message]) => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(echo, { concurrencyModifier })
      yield* memory.submit(job("j1"))
      yield* memory.nextDone
      expect(memory.calls().find(({ kind }) => kind === "take")?.about).toBe("1")
      expect(log.find(({ level }) => level === "ERROR")?.message).toMatch(message)
    }).pipe(Effect.provide(layer))
  })
})

describe("a job that is received twice", () => {
  it.effect("ends the earlier attempt, which delivers nothing", () => {
    const { layer } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      const aborted = yield* Deferred.make<string>()
      yield* start(
        Handler.fromFunction((taken, { signal }) =>
          taken.input === 1
            ? new Promise((resolve) =>
              signal.addEventListener("abort", () => resolve(Effect.runSync(Deferred.succeed(aborted, "first attempt"))))
            )
            : "second attempt"
        ),
        { concurrencyModifier: () => 2 }
      )
      yield* memory.submit(job("j1", 1))
      yield* settle
      yield* memory.submit(job("j1", 2))
      expect(yield* Deferred.await(aborted)).toBe("first attempt")
      expect(yield* memory.nextDone).toEqual({ id: "j1", body: { output: "second attempt" } })
      yield* settle
      expect(memory.calls().filter(({ kind }) => kind === "done")).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  })
})

import { describe, expect, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { CurrentJob, Handler, RunningJob } from "../src/index.ts"
import * as WorkerTest from "../src/testing/WorkerTest.ts"

const idNow = () => RunningJob.service(CurrentJob)?.id

/** One turn of the event loop, outside the handler's stack. */
const later = () => new Promise<void>((resolve) => setImmediate(resolve))

describe("the running job of plain code", () => {
  it.effect("is found in a function, after an await and in every step of a generator", () =>
    Effect.gen(function*() {
      const plain = Handler.fromFunction(() => idNow() ?? "none")
      const awaiting = Handler.fromFunction(async () => {
        await later()
        return idNow() ?? "none"
      })
      const stepping = Handler.fromFunction(async function*() {
        yield idNow() ?? "none"
        await later()
        yield idNow() ?? "none"
      })
      expect((yield* WorkerTest.runJson(plain, 1, { id: "j1" })).output).toBe("j1")
      expect((yield* WorkerTest.runJson(awaiting, 1, { id: "j2" })).output).toBe("j2")
      expect((yield* WorkerTest.runJson(stepping, 1, { id: "j3" })).chunks).toEqual(["j3", "j3"])
      expect(idNow()).toBeUndefined()
    }))

  it.effect("is separate for concurrent jobs", () =>
    Effect.gen(function*() {
      const handler = Handler.fromFunction(async () => {
        const before = idNow()
        await later()
        return [before, idNow()]
      })
      const results = yield* Effect.forEach(
        ["a", "b", "c"],
        (id) => WorkerTest.runJson(handler, null, { id }),
        { concurrency: "unbounded" }
      )
      expect(results.map(({ output }) => output)).toEqual([["a", "a"], ["b", "b"], ["c", "c"]])
    }))

  it.effect("interrupts the effects that were started for it when it is stopped", () =>
    Effect.gen(function*() {
      const started = yield* Deferred.make<void>()
      const ended = yield* Deferred.make<string>()
      const forJob = Effect.andThen(Deferred.succeed(started, undefined), Effect.never).pipe(
        Effect.onInterrupt(() => Effect.asVoid(Deferred.succeed(ended, "interrupted")))
      )
      const handler = Handler.fromFunction(() => RunningJob.runPromise(forJob).catch(() => undefined))
      const fiber = yield* Effect.forkChild(WorkerTest.runJson(handler, null))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      expect(yield* Deferred.await(ended)).toBe("interrupted")
    }))

  it.effect("provides its services to effects that plain code runs, and none outside jobs", () =>
    Effect.gen(function*() {
      const id = Effect.map(Effect.serviceOption(CurrentJob), (job) => job._tag === "Some" ? job.value.id : "none")
      const handler = Handler.fromFunction(() => RunningJob.runPromise(id))
      expect((yield* WorkerTest.runJson(handler, null, { id: "j9" })).output).toBe("j9")
      expect(yield* Effect.promise(() => RunningJob.runPromise(id))).toBe("none")
    }))
})

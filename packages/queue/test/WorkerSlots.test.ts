import { describe, expect, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { layer, WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import { merge } from "../src/workers/WorkerReports.ts"

const E = EndpointId.make("letters")

/** A worker that calls a registry. `take` asks for jobs and gets the given ones; without a held job it says so, unless `silent`. */
const scenario = Effect.gen(function*() {
  const registry = yield* WorkerRegistry
  const statusOf = Effect.map(registry.list(E), (all) => all[0])
  return {
    take: Effect.fnUntraced(function*(asked: number, gets: ReadonlyArray<string>, idle = false) {
      yield* registry.touch(E, "ann", "take")
      registry.asked(E, "ann", asked, idle)
      for (const job of gets) yield* registry.assigned(E, "ann", job)
    }),
    end: (job: string) => registry.released(E, "ann", job),
    restored: (job: string) => registry.assigned(E, "ann", job),
    drain: registry.drain(E, "ann"),
    statusOf,
    slots: Effect.map(statusOf, (status) => status?.slots)
  }
})

const test = (title: string, body: (worker: Effect.Success<typeof scenario>) => Effect.Effect<void>) =>
  it.effect(title, () => Effect.flatMap(scenario, body).pipe(Effect.provide(layer)))

describe("the slots of a worker", () => {
  test("are what it asks for while it holds no job, and stay so while it is busy and while it drains", (worker) =>
    Effect.gen(function*() {
      yield* worker.take(4, ["a", "b", "c"], true)
      expect(yield* worker.slots).toBe(4)
      yield* worker.take(1, [])
      expect(yield* worker.slots).toBe(4)
      expect((yield* worker.statusOf)?.jobs).toEqual(["a", "b", "c"])
      yield* worker.drain
      for (const job of ["a", "b", "c"]) yield* worker.end(job)
      expect((yield* worker.statusOf)?.slots).toBe(4)
    }))

  test("are known for a worker that does not say whether it holds jobs", (worker) =>
    Effect.gen(function*() {
      yield* worker.take(3, ["a"])
      expect(yield* worker.slots).toBe(3)
    }))

  test("do not count a job whose result arrives after the next take", (worker) =>
    Effect.gen(function*() {
      yield* worker.take(1, ["a"], true)
      for (const [before, next] of [["a", "b"], ["b", "c"], ["c", "d"]] as const) {
        yield* worker.take(1, [next])
        yield* worker.end(before)
        expect(yield* worker.slots).toBe(1)
      }
    }))

  test("grow when a busy worker can run more jobs, and shrink when it asks for fewer without a job", (worker) =>
    Effect.gen(function*() {
      yield* worker.take(2, ["a", "b"], true)
      // Now it can run four, and finishes b.
      yield* worker.end("b")
      yield* worker.take(3, ["c", "d", "e"])
      expect(yield* worker.slots).toBe(3)
      yield* worker.end("e")
      yield* worker.take(1, [])
      expect(yield* worker.slots).toBe(4)
      for (const job of ["a", "c", "d"]) yield* worker.end(job)
      yield* worker.take(1, [], true)
      expect(yield* worker.slots).toBe(1)
    }))

  test("are unknown after a restart of the platform until two takes of the busy worker have told them", (worker) =>
    Effect.gen(function*() {
      for (const job of ["a", "b", "c", "d"]) yield* worker.restored(job)
      expect(yield* worker.slots).toBeUndefined()
      // The result of a follows its take.
      yield* worker.take(1, ["e"])
      yield* worker.end("a")
      expect(yield* worker.slots).toBeUndefined()
      yield* worker.take(1, [])
      yield* worker.end("e")
      expect(yield* worker.slots).toBe(4)
    }))

  test("are the most that any node knows", (worker) =>
    Effect.gen(function*() {
      yield* worker.take(4, ["a"], true)
      const here = yield* worker.statusOf
      if (here === undefined) throw new Error("the worker is unknown")
      const { slots: _, ...unknown } = here
      for (const there of [unknown, { ...unknown, slots: 1 }]) {
        expect(merge([here, { ...there, lastSeenAt: here.lastSeenAt + 1 }])).toMatchObject([{ id: "ann", slots: 4 }])
        expect(merge([there, here])).toMatchObject([{ slots: 4 }])
      }
      expect(merge([unknown, unknown])[0]).not.toHaveProperty("slots")
    }))
})

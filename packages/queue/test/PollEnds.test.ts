import { describe, expect, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import * as JobQueue from "../src/jobs/JobQueue.ts"
import * as WorkerRegistry from "../src/workers/WorkerRegistry.ts"

const queue = JobQueue.layer.pipe(Layer.provideMerge(WorkerRegistry.layer), Layer.provide(MemoryJobStore.layerWithEndpoints))

const endpoint = EndpointId.make("idle")

/** The times at which polls end that begin at these times. */
const endsOf = Effect.fnUntraced(function*(waitMs: number, starts: ReadonlyArray<number>) {
  const { stopSignals, take } = yield* JobQueue.JobQueue
  const began = yield* Clock.currentTimeMillis
  const fibers = yield* Effect.forEach(starts, (start, n) => {
    const worker = `w-${n}`
    const poll = n % 2 === 0
      ? Effect.asVoid(take({ endpoint, worker, limit: 1, waitMs, holding: true }))
      : Effect.asVoid(stopSignals(endpoint, worker, waitMs))
    return Effect.forkChild(Effect.delay(Effect.andThen(poll, Clock.currentTimeMillis), start - began))
  })
  yield* TestClock.adjust("3 minutes")
  return yield* Effect.forEach(fibers, Fiber.join)
})

describe("the long polls of idle workers", () => {
  it.effect("end together, at a full second, at most a second early", () =>
    Effect.gen(function*() {
      expect(yield* endsOf(60_000, [1, 130, 470, 999, 1_000, 1_001, 1_999])).toEqual([
        60_000,
        60_000,
        60_000,
        60_000,
        61_000,
        61_000,
        61_000
      ])
    }).pipe(Effect.provide(queue)))

  it.effect("end exactly when they are short", () =>
    Effect.gen(function*() {
      expect(yield* endsOf(300, [130, 470, 1_001])).toEqual([430, 770, 1_301])
    }).pipe(Effect.provide(queue)))
})

/**
 * Tests when `/readyz` reports that the platform is not ready.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Readiness from "@stint/server/Readiness"
import { StoreFaults } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"

const faulty = Readiness.layer.pipe(Layer.provideMerge(StoreFaults.layer(MemoryJobStore.layer)))

describe("readiness", () => {
  it.effect("ends while the store fails, and returns with the store", () =>
    Effect.gen(function*() {
      const readiness = yield* Readiness.Readiness
      const faults = yield* StoreFaults.StoreFaults
      expect(yield* readiness.check).toBeUndefined()
      yield* faults.failNextWrites(Infinity)
      yield* TestClock.adjust("1 second")
      expect(yield* readiness.check).toContain("The store does not work")
      yield* faults.failNextWrites(0)
      yield* TestClock.adjust("1 second")
      expect(yield* readiness.check).toBeUndefined()
    }).pipe(Effect.provide(faulty)))

  it.effect("checks the store once per second, however often it is called, and once for concurrent calls", () =>
    Effect.gen(function*() {
      let claims = 0
      const jobs = yield* JobStore
      const counted = JobStore.of({
        ...jobs,
        claim: (...options) => {
          claims += 1
          return jobs.claim(...options)
        }
      })
      yield* Effect.gen(function*() {
        const readiness = yield* Readiness.Readiness
        yield* Effect.all(Array.from({ length: 100 }, () => readiness.check), { concurrency: "unbounded" })
        expect(claims).toBe(1)
        yield* TestClock.adjust("1 second")
        yield* readiness.check
        yield* readiness.check
        expect(claims).toBe(2)
      }).pipe(Effect.provide(Readiness.layer.pipe(Layer.provide(Layer.succeed(JobStore, counted)))))
    }).pipe(Effect.provide(MemoryJobStore.layer)))

  it.effect("ends when the store does not respond within 5 seconds, and when the platform shuts down", () =>
    Effect.gen(function*() {
      const silent = JobStore.of({ ...(yield* JobStore), claim: () => Effect.never })
      yield* Effect.gen(function*() {
        const readiness = yield* Readiness.Readiness
        const check = yield* Effect.forkChild(readiness.check)
        yield* TestClock.adjust("5 seconds")
        expect(yield* Fiber.join(check)).toBe("The store did not respond within 5 seconds.")
        yield* readiness.close
        expect(yield* readiness.check).toBe("The platform is shutting down.")
      }).pipe(Effect.provide(Readiness.layer.pipe(Layer.provide(Layer.succeed(JobStore, silent)))))
    }).pipe(Effect.provide(MemoryJobStore.layer)))
})

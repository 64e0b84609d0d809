/**
 * Tests job events with random job histories and random disconnects (R9, docs/spec/figures.md#reliability), and the resources that one
 * client uses.
 */
import { describe, expect, it, layer } from "@effect/vitest"
import { withHeartbeat } from "@stint/server/JobEventStream"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { dataOf, open, type SentEvent } from "../src/EventReader.ts"
import { ADMIN_KEY, layer as layerServer, ServerTest } from "../src/ServerTest.ts"

/** The number of events that the client reads before each disconnect. The list repeats. */
const cuts = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 6 }).filter((all) => all.some((one) => one > 0))

/** The worker's actions: it sends chunks and progress in bursts. */
const course = fc.array(
  fc.oneof({ weight: 4, arbitrary: fc.constant("chunk" as const) }, { weight: 1, arbitrary: fc.constant("progress" as const) }),
  { maxLength: 25 }
)

layer(layerServer(), { excludeTestServices: true })("events", (it) => {
  it.effect(
    "R9: delivers every chunk once and in order, wherever the client disconnects",
    () =>
      Effect.gen(function*() {
        const server = yield* ServerTest
        const endpoint = yield* server.endpoint()
        const worker = yield* endpoint.worker()
        const services = yield* Effect.context()

        const once = Effect.fnUntraced(function*(steps: ReadonlyArray<"chunk" | "progress">, pattern: ReadonlyArray<number>) {
          const { id } = yield* endpoint.run({})
          yield* worker.next
          let sent = 0
          const writing = yield* Effect.forkChild(Effect.andThen(
            Effect.forEach(steps, (step) => step === "chunk" ? worker.stream(id, [++sent]) : worker.progress(id, sent), {
              discard: true
            }),
            worker.finish(id, "done")
          ))
          const seen: Array<SentEvent> = []
          let turn = 0
          while (seen.at(-1)?.event !== "end") {
            const after = seen.at(-1)?.id
            const reader = yield* open(`${server.baseUrl}${endpoint.path(`events/${id}`)}`, {
              authorization: `Bearer ${ADMIN_KEY}`,
              ...(after === undefined ? {} : { "last-event-id": after })
            })
            for (let left = pattern[turn++ % pattern.length] ?? 1; left > 0; left--) {
              const event = yield* reader.next
              if (event === undefined) break
              seen.push(event)
            }
            yield* reader.cut
          }
          yield* Fiber.join(writing)
          const numbers = yield* Effect.forEach(
            seen.filter(({ event }) => event === "chunk"),
            (event) => Effect.map(dataOf(event), (data) => (data as { readonly output: number }).output)
          )
          expect(numbers).toEqual(Array.from({ length: sent }, (_, n) => n + 1))
          expect(seen.filter(({ event }) => event === "end")).toHaveLength(1)
        }, Effect.scoped)

        yield* Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(course, cuts, (steps, pattern) => Effect.runPromiseWith(services)(once(steps, pattern))),
            { numRuns: 25 }
          )
        )
      }),
    60_000
  )
})

describe("withHeartbeat", () => {
  it.effect("sends heartbeats while the stream emits nothing, and loses no element", () =>
    Effect.gen(function*() {
      const slow = Stream.fromIterable([1, 2]).pipe(Stream.mapEffect((n) => Effect.delay(Effect.succeed(`event ${n}`), 35_000)))
      const reading = yield* Effect.forkChild(Stream.runCollect(withHeartbeat(slow, 15_000, "alive")))
      yield* TestClock.adjust(80_000)
      expect([...(yield* Fiber.join(reading))]).toEqual(["alive", "alive", "event 1", "alive", "alive", "event 2"])
    }))

  it.effect("pulls no more than the client reads: when a client stops reading, at most one pull is in flight", () =>
    Effect.gen(function*() {
      let produced = 0
      const endless = Stream.fromEffectRepeat(Effect.sync(() => `event ${++produced}`))
      const read = yield* Stream.runCollect(Stream.take(withHeartbeat(endless, 15_000, "alive"), 3))
      expect(read).toHaveLength(3)
      expect(produced).toBeLessThanOrEqual(4)
    }))

  it.effect("ends the pull in flight when the client disconnects", () =>
    Effect.gen(function*() {
      let ended = false
      const silent = Stream.fromEffect(Effect.onInterrupt(Effect.never, () =>
        Effect.sync(() => {
          ended = true
        })))
      const reading = yield* Effect.forkChild(Stream.runDrain(withHeartbeat(silent, 15_000, "alive")))
      yield* TestClock.adjust(20_000)
      yield* Fiber.interrupt(reading)
      expect(ended).toBe(true)
    }))
})

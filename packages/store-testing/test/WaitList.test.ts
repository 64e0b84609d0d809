import { assert, describe, it } from "@effect/vitest"
import * as WaitList from "@stint/queue/WaitList"
import { Scenario } from "@stint/store-testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"

/** A waiter that has joined the line of `key`. */
const waiter = (list: WaitList.WaitList, key: string, millis = 60_000) =>
  Effect.gen(function*() {
    const ticket = yield* list.register(key)
    return yield* Effect.forkChild(ticket.wait(millis))
  })

/** Forked waiters, with time for each to begin. */
const waiters = (list: WaitList.WaitList, count: number) =>
  Effect.tap(Effect.replicateEffect(waiter(list, "key"), count), () => Scenario.settle)

const done = (fibers: ReadonlyArray<Fiber.Fiber<boolean>>) => fibers.map(Scenario.isDone)

describe("WaitList", () => {
  it.effect("wakes as many as asked, longest waiting first", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const fibers = yield* waiters(list, 3)
      list.wake("key", 2)
      yield* Scenario.settle
      assert.deepStrictEqual(done(fibers), [true, true, false])
      assert.strictEqual(list.size("key"), 1)
      list.wake("key")
      assert.deepStrictEqual(yield* Fiber.joinAll(fibers), [true, true, true])
      assert.strictEqual(list.size("key"), 0)
    }))

  it.effect("keeps the lines of different keys apart, and wakeAll reaches all", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const a = yield* waiter(list, "a")
      const b = yield* waiter(list, "b")
      yield* Scenario.settle
      list.wake("a")
      list.wake("nobody")
      yield* Scenario.settle
      assert.deepStrictEqual(done([a, b]), [true, false])
      list.wakeAll()
      assert.isTrue(yield* Fiber.join(b))
    }))

  it.effect("a wake-up that comes before the wait is not missed", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const ticket = yield* list.register("key")
      list.wake("key", 1)
      assert.isTrue(yield* ticket.wait(60_000))
    }))

  it.effect("a wait that is over says so and leaves the line", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const fiber = yield* waiter(list, "key", 1_000)
      yield* Scenario.settle
      yield* TestClock.adjust(1_000)
      assert.isFalse(yield* Fiber.join(fiber))
      assert.strictEqual(list.size("key"), 0)
    }))

  it.effect("whoever leaves passes on the wake-up that had come", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const ticket = yield* list.register("key")
      const [next] = yield* waiters(list, 1)
      list.wake("key", 1)
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(next!))
      yield* ticket.cancel
      assert.isTrue(yield* Fiber.join(next!))
    }))

  it.effect("whoever leaves without a wake-up wakes nobody", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const ticket = yield* list.register("key")
      const [next] = yield* waiters(list, 1)
      yield* ticket.cancel
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(next!))
      assert.strictEqual(list.size("key"), 1)
      yield* Fiber.interrupt(next!)
      assert.strictEqual(list.size("key"), 0)
    }))

  it.effect("whoever is interrupted with a wake-up in hand passes it on", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const [first, second] = yield* waiters(list, 2)
      list.wake("key", 1)
      // Woken, but not running yet.
      yield* Fiber.interrupt(first!)
      const woken = first!.pollUnsafe()
      if (woken?._tag === "Success") return assert.isTrue(woken.value)
      assert.isTrue(yield* Fiber.join(second!))
    }))

  it.effect("no wake-up is lost and none is made up, whoever comes and goes", () =>
    Effect.promise(() =>
      fc.assert(fc.asyncProperty(
        fc.array(fc.constantFrom("come", "come", "wake", "leave", "hurry"), { maxLength: 40 }),
        (operations) =>
          Effect.runPromise(Effect.gen(function*() {
            const list = WaitList.make()
            /** Those in line who were not woken, longest waiting first; those woken who have not looked. */
            let line: Array<WaitList.Ticket> = []
            let woken: Array<WaitList.Ticket> = []
            for (const operation of operations) {
              if (operation === "come") line.push(yield* list.register("key"))
              if (operation === "wake") {
                list.wake("key", 1)
                woken = [...woken, ...line.slice(0, 1)]
                line = line.slice(1)
              }
              // Leaves the line, and whoever had been woken hands that on.
              const leaver = operation === "leave" ? line.at(-1) : operation === "hurry" ? woken[0] : undefined
              if (leaver !== undefined) {
                yield* leaver.cancel
                if (woken.includes(leaver)) {
                  woken = [...woken.filter((one) => one !== leaver), ...line.slice(0, 1)]
                  line = line.slice(1)
                } else {
                  line = line.filter((one) => one !== leaver)
                }
              }
              assert.strictEqual(list.size("key"), line.length)
            }
            // Those who were woken come back at once, the others only when their time is over.
            for (const ticket of woken) assert.isTrue(yield* ticket.wait(60_000))
            for (const ticket of line) assert.isFalse(yield* ticket.wait(0))
            assert.strictEqual(list.size("key"), 0)
          }))
      ))
    ))
})

import { assert, describe, it } from "@effect/vitest"
import * as WaitList from "@stint/queue/WaitList"
import { Scenario } from "@stint/store-testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"

/** Registers a waiter of `key`. */
const waiter = (list: WaitList.WaitList, key: string, millis = 60_000) =>
  Effect.gen(function*() {
    const ticket = yield* list.register(key)
    return yield* Effect.forkChild(ticket.wait(millis))
  })

/** Forks waiters and lets each of them register. */
const waiters = (list: WaitList.WaitList, count: number) =>
  Effect.tap(Effect.replicateEffect(waiter(list, "key"), count), () => Scenario.settle)

const done = (fibers: ReadonlyArray<Fiber.Fiber<boolean>>) => fibers.map(Scenario.isDone)

describe("WaitList", () => {
  it.effect("wakes the requested number of waiters, longest waiting first", () =>
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

  it.effect("wakes the waiters of one key only, and of every key on wakeAll", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const a = yield* waiter(list, "a")
      const b = yield* waiter(list, "b")
      yield* Scenario.settle
      list.wake("a")
      list.wake("unknown")
      yield* Scenario.settle
      assert.deepStrictEqual(done([a, b]), [true, false])
      list.wakeAll()
      assert.isTrue(yield* Fiber.join(b))
    }))

  it.effect("returns at once from a wait whose wake-up came before it", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const ticket = yield* list.register("key")
      list.wake("key", 1)
      assert.isTrue(yield* ticket.wait(60_000))
    }))

  it.effect("reports a wait that times out, and unregisters the waiter", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const fiber = yield* waiter(list, "key", 1_000)
      yield* Scenario.settle
      yield* TestClock.adjust(1_000)
      assert.isFalse(yield* Fiber.join(fiber))
      assert.strictEqual(list.size("key"), 0)
    }))

  it.effect("passes the wake-up of a cancelled waiter to the next waiter", () =>
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

  it.effect("wakes no waiter when a waiter without a wake-up is cancelled", () =>
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

  it.effect("passes on the wake-up of a waiter that is interrupted", () =>
    Effect.gen(function*() {
      const list = WaitList.make()
      const [first, second] = yield* waiters(list, 2)
      list.wake("key", 1)
      // The first waiter is woken but is not running yet.
      yield* Fiber.interrupt(first!)
      const woken = first!.pollUnsafe()
      if (woken?._tag === "Success") return assert.isTrue(woken.value)
      assert.isTrue(yield* Fiber.join(second!))
    }))

  it.effect("neither loses nor adds a wake-up, whichever waiters register and cancel", () =>
    Effect.promise(() =>
      fc.assert(fc.asyncProperty(
        fc.array(fc.constantFrom("register", "register", "wake", "cancel", "cancelWoken"), { maxLength: 40 }),
        (operations) =>
          Effect.runPromise(Effect.gen(function*() {
            const list = WaitList.make()
            /** Waiters that were not woken, longest waiting first, and woken waiters that have not returned. */
            let waiting: Array<WaitList.Ticket> = []
            let woken: Array<WaitList.Ticket> = []
            for (const operation of operations) {
              if (operation === "register") waiting.push(yield* list.register("key"))
              if (operation === "wake") {
                list.wake("key", 1)
                woken = [...woken, ...waiting.slice(0, 1)]
                waiting = waiting.slice(1)
              }
              // Cancels a waiter. A waiter that was woken passes its wake-up on to the next one.
              const cancelled = operation === "cancel" ? waiting.at(-1) : operation === "cancelWoken" ? woken[0] : undefined
              if (cancelled !== undefined) {
                yield* cancelled.cancel
                if (woken.includes(cancelled)) {
                  woken = [...woken.filter((one) => one !== cancelled), ...waiting.slice(0, 1)]
                  waiting = waiting.slice(1)
                } else {
                  waiting = waiting.filter((one) => one !== cancelled)
                }
              }
              assert.strictEqual(list.size("key"), waiting.length)
            }
            // Woken waiters return at once, the others when they time out.
            for (const ticket of woken) assert.isTrue(yield* ticket.wait(60_000))
            for (const ticket of waiting) assert.isFalse(yield* ticket.wait(0))
            assert.strictEqual(list.size("key"), 0)
          }))
      ))
    ))
})

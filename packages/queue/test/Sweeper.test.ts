import { assert, describe, it } from "@effect/vitest"
import { Nodes } from "@stint/store/Nodes"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as Sweeper from "../src/Sweeper.ts"

/** A node whose age relative to the others can be changed. */
const nodeOf = (state: { isOldest: boolean }) =>
  Nodes.of({
    name: "node",
    hasOthers: () => true,
    isOldest: () => state.isOldest,
    publish: () => {},
    publishAll: () => {},
    subscribe: () => {},
    owns: () => true,
    leave: Effect.void,
    setReport: () => {},
    reports: () => new Map()
  })

/** A sweep every 250 ms that counts, and returns what `more` says. */
const counting = Effect.fnUntraced(function*(more: () => boolean = () => false) {
  const count = { sweeps: 0, fails: false }
  const sweep = Effect.suspend(() => {
    count.sweeps += 1
    return count.fails ? Effect.fail("the store is gone") : Effect.sync(more)
  })
  yield* Sweeper.start({
    sweep: yield* Sweeper.shared(sweep),
    interval: "250 millis",
    failureMessage: () => "",
    recoveryMessage: ""
  })
  const during = (seconds: number) =>
    Effect.gen(function*() {
      const before = count.sweeps
      yield* TestClock.adjust(seconds * 1_000)
      return count.sweeps - before
    })
  yield* during(1)
  return { count, during }
})

describe("a sweep of several nodes", () => {
  it.effect("runs at each interval on the oldest node, and without other nodes", () =>
    Effect.gen(function*() {
      const alone = yield* counting()
      assert.strictEqual(yield* alone.during(10), 40)
      const oldest = yield* Effect.provideService(counting(), Nodes, nodeOf({ isOldest: true }))
      assert.strictEqual(yield* oldest.during(10), 40)
    }).pipe(Effect.scoped))

  it.effect("runs every five seconds on another node, and at each interval as soon as that node is the oldest", () =>
    Effect.gen(function*() {
      const state = { isOldest: false }
      const { during } = yield* Effect.provideService(counting(), Nodes, nodeOf(state))
      assert.strictEqual(yield* during(10), 2)
      state.isOldest = true
      assert.strictEqual(yield* during(10), 40)
    }).pipe(Effect.scoped))

  it.effect("runs again at once on another node while it leaves work behind, and at the next interval after a failure", () =>
    Effect.gen(function*() {
      let left = 0
      const { count, during } = yield* Effect.provideService(counting(() => left-- > 0), Nodes, nodeOf({ isOldest: false }))
      left = 5
      assert.strictEqual(yield* during(5), 6)
      count.fails = true
      assert.isAtLeast(yield* during(10), 20)
      count.fails = false
      yield* during(1)
      assert.strictEqual(yield* during(10), 2)
    }).pipe(Effect.scoped))
})

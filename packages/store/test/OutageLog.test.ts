import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as OutageLog from "../src/OutageLog.ts"

const logged = () => {
  const lines: Array<string> = []
  const log = (line: string) => Effect.sync(() => void lines.push(line))
  return { lines, outage: OutageLog.make({ onFailure: (problem) => log(`failed: ${problem}`), onRecovery: log("recovered") }) }
}

it.effect("logs the first failure of an outage and the first success after it", () =>
  Effect.gen(function*() {
    const { lines, outage } = logged()
    const works = outage.watch(Effect.void)
    const fails = outage.watch(Effect.die(new Error("the disk is full")))
    assert.isTrue(yield* works)
    assert.deepStrictEqual(lines, [])
    assert.isFalse(yield* fails)
    assert.isFalse(yield* outage.watch(Effect.die("another problem")))
    assert.deepStrictEqual(lines, ["failed: the disk is full"])
    yield* works
    yield* works
    assert.deepStrictEqual(lines, ["failed: the disk is full", "recovered"])
    yield* outage.watch(Effect.die("a defect"))
    assert.deepStrictEqual(lines, ["failed: the disk is full", "recovered", "failed: a defect"])
  }))

it.effect("does not count an interruption as a failure", () =>
  Effect.gen(function*() {
    const { lines, outage } = logged()
    const exit = yield* Effect.exit(outage.watch(Effect.interrupt))
    assert.isTrue(Exit.hasInterrupts(exit))
    assert.deepStrictEqual(lines, [])
  }))

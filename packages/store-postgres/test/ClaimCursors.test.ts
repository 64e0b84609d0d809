import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as ClaimCursors from "../src/ClaimCursors.ts"
import type { DeadRows } from "../src/DeadRows.ts"

const make = () => {
  const now = { isMany: true, elapsed: 0 }
  const deadRows: DeadRows = { isMany: () => now.isMany, count: () => Promise.resolve() }
  return { now, cursors: ClaimCursors.make(deadRows, () => now.elapsed) }
}

const place = (seq: number, priority = 0) => ({ priority, seq })

describe("the cursors of claims", () => {
  it("begin at the first job that a claim of everything has found, for a second", () => {
    const { cursors, now } = make()
    assert.isUndefined(cursors.of("llm"))
    cursors.found("llm", [place(70), place(71)], 5)
    assert.deepStrictEqual(cursors.of("llm"), place(70))
    assert.isUndefined(cursors.of("other"))
    cursors.found("llm", [place(90)])
    now.elapsed = 999
    assert.deepStrictEqual(cursors.of("llm"), place(90))
    now.elapsed = 1_000
    assert.isUndefined(cursors.of("llm"))
  })

  it("read everything more rarely when it takes longer", () => {
    const { cursors, now } = make()
    cursors.found("llm", [place(1)], 200)
    now.elapsed = 3_999
    assert.isDefined(cursors.of("llm"))
    now.elapsed = 4_000
    assert.isUndefined(cursors.of("llm"))
  })

  it("do not exist while there are few dead rows, or when a claim of everything found nothing", () => {
    const { cursors, now } = make()
    cursors.found("llm", [place(1)], 1)
    cursors.found("llm", [], 1)
    assert.isUndefined(cursors.of("llm"))
    cursors.found("llm", [place(1)], 1)
    now.isMany = false
    assert.isUndefined(cursors.of("llm"))
    now.isMany = true
    assert.isUndefined(cursors.of("llm"))
  })

  it("begin at the lowest priority that was found, so that rare jobs of a higher one do not move them", () => {
    const { cursors } = make()
    cursors.found("llm", [place(500, 9), place(70), place(71)], 1)
    assert.deepStrictEqual(cursors.of("llm"), place(70))
    cursors.found("llm", [place(501, 9)])
    assert.deepStrictEqual(cursors.of("llm"), place(70))
  })

  /** The claims of one node, which read as `READY` and `READY_FROM` do. Dead rows are simply missing. */
  it("skip no ready job of the same node, in any order of submissions, returns and claims", () =>
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.record({ _tag: fc.constant("Submit" as const), priority: fc.integer({ min: -1, max: 1 }) }),
            fc.record({ _tag: fc.constant("Return" as const), index: fc.nat(20) }),
            fc.record({ _tag: fc.constant("Claim" as const), limit: fc.integer({ min: 1, max: 4 }) }),
            fc.record({ _tag: fc.constant("Pass" as const), millis: fc.integer({ min: 1, max: 600 }) })
          ),
          { maxLength: 60, size: "max" }
        ),
        (commands) => {
          const { cursors, now } = make()
          const ready: Array<ClaimCursors.Place> = []
          const claimed: Array<ClaimCursors.Place> = []
          let seq = 0
          const arrive = (one: ClaimCursors.Place) => {
            cursors.arrived("llm", one)
            ready.push(one)
          }
          for (const command of commands) {
            if (command._tag === "Submit") arrive(place(++seq, command.priority))
            else if (command._tag === "Pass") now.elapsed += command.millis
            else if (command._tag === "Return") {
              const [one] = claimed.splice(command.index % Math.max(claimed.length, 1), 1)
              if (one !== undefined) arrive(one)
            } else {
              const line = ready.toSorted((a, b) => b.priority - a.priority || a.seq - b.seq)
              const from = cursors.of("llm")
              const behind = from === undefined
                ? []
                : line.filter((one) => one.priority !== from.priority || one.seq >= from.seq).slice(0, command.limit)
              const found = behind.length > 0 ? behind : line.slice(0, command.limit)
              assert.deepStrictEqual(found, line.slice(0, command.limit))
              cursors.found("llm", found, behind.length > 0 ? undefined : 1)
              for (const one of found) ready.splice(ready.indexOf(one), 1)
              claimed.push(...found)
            }
          }
        }
      ),
      { numRuns: 500 }
    ))
})

import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { type AlertState, firing, MAX_ALERTS, type Notice, step } from "../src/AlertMachine.ts"
import type { Condition } from "../src/AlertRules.ts"

const PACE = { repeatMs: 10_000, resolveMs: 3_000 }

const condition = (name: string, forMs = 0, kind: Condition["kind"] = "queue_old"): Condition => ({
  fingerprint: `${kind}/${name}`,
  kind,
  endpoint: name,
  summary: `${name} is wrong.`,
  action: "Correct it.",
  forMs
})

const NAMES = ["a", "b", "c"] as const

interface Round {
  /** The time since the previous round. */
  readonly after: number
  readonly holding: ReadonlyArray<string>
}

const rounds: fc.Arbitrary<ReadonlyArray<Round>> = fc.array(
  fc.record({ after: fc.integer({ min: 0, max: 6_000 }), holding: fc.subarray([...NAMES]) }),
  { maxLength: 60 }
)

/** `c` fires only after it has held for two seconds. */
const conditionOf = (name: string) => condition(name, name === "c" ? 2_000 : 0)

interface Said extends Notice {
  readonly at: number
}

/** Plays rounds, and then enough rounds without a condition. */
const play = (all: ReadonlyArray<Round>) => {
  let state: AlertState = new Map()
  let now = 1_000_000
  const said: Array<Said> = []
  const run = ({ after, holding }: Round) => {
    now += after
    const next = step(state, holding.map(conditionOf), now, PACE)
    state = next.state
    said.push(...next.notices.map((notice) => ({ ...notice, at: now })))
  }
  for (const round of all) run(round)
  run({ after: 1, holding: [] })
  run({ after: PACE.resolveMs, holding: [] })
  return { said, state }
}

const of = (said: ReadonlyArray<Said>, name: string) => said.filter(({ alert }) => alert.endpoint === name)

describe("the alert machine", () => {
  it("reports each alert once, repeats it at its pace, and resolves it once, whatever happens", () => {
    fc.assert(fc.property(rounds, (all) => {
      const { said } = play(all)
      for (const name of NAMES) {
        let current: Said | undefined
        for (const notice of of(said, name)) {
          if (notice.type === "alert.resolved") {
            assert.isDefined(current, "resolved what had not fired")
            assert.strictEqual(notice.alert.id, current?.alert.id)
            assert.strictEqual(notice.notice, (current?.notice ?? 0) + 1)
            assert.isAtLeast(notice.at - (notice.resolvedAt ?? 0), PACE.resolveMs)
            current = undefined
            continue
          }
          if (current === undefined) assert.strictEqual(notice.notice, 1)
          else {
            assert.strictEqual(notice.notice, current.notice + 1)
            assert.strictEqual(notice.alert.id, current.alert.id)
            assert.isAtLeast(notice.at - current.at, PACE.repeatMs)
          }
          current = notice
        }
        assert.isUndefined(current, "never resolved")
      }
      const ids = said.filter(({ notice }) => notice === 1).map(({ alert }) => alert.id)
      assert.strictEqual(new Set(ids).size, ids.length)
    }))
  })

  it("forgets conditions that did not hold long enough, so that its memory depends only on current problems", () => {
    fc.assert(fc.property(rounds, (all) => assert.strictEqual(play(all).state.size, 0)))
  })

  it("fires in the round in which a condition has held long enough, and not earlier", () => {
    fc.assert(fc.property(rounds, (all) => {
      let state: AlertState = new Map()
      let now = 0
      let since: number | undefined
      for (const { after, holding } of all) {
        now += after
        const next = step(state, holding.map(conditionOf), now, PACE)
        state = next.state
        const holds = holding.includes("c")
        const fires = firing(state).some(({ endpoint }) => endpoint === "c")
        if (!holds) {
          if (!fires) since = undefined
          continue
        }
        since ??= now
        assert.strictEqual(fires, now - since >= 2_000)
      }
    }))
  })

  it("sends nothing about a condition that comes back before it is resolved", () => {
    const first = step(new Map(), [condition("a")], 0, PACE)
    assert.deepStrictEqual(first.notices.map(({ type }) => type), ["alert.firing"])
    const gone = step(first.state, [], 1_000, PACE)
    const back = step(gone.state, [condition("a")], 3_500, PACE)
    const goneAgain = step(back.state, [], 4_000, PACE)
    const stillGone = step(goneAgain.state, [], 6_999, PACE)
    assert.deepStrictEqual([gone, back, goneAgain, stillGone].flatMap(({ notices }) => notices), [])
    const resolved = step(stillGone.state, [], 7_000, PACE)
    assert.deepStrictEqual(resolved.notices.map(({ resolvedAt, type }) => [type, resolvedAt]), [["alert.resolved", 4_000]])
  })

  it("tracks a bounded number of alerts of one kind, keeps firing alerts, and reports the others when there is room", () => {
    const many = Array.from({ length: MAX_ALERTS + 5 }, (_, number) => condition(String(number), 0, "webhook_receiver_gone"))
    const full = step(new Map(), many, 0, PACE)
    assert.strictEqual(full.state.size, MAX_ALERTS)
    const other = step(full.state, [...many.toReversed(), condition("x")], 1, PACE)
    assert.deepStrictEqual(other.notices.map(({ alert }) => alert.fingerprint), ["queue_old/x"])
    const rest = many.slice(MAX_ALERTS)
    const room = step(step(other.state, rest, 2, PACE).state, rest, 2 + PACE.resolveMs, PACE)
    assert.strictEqual(room.notices.filter(({ type }) => type === "alert.firing").length, 5)
  })

  it("identifies an occurrence by its fingerprint and its time, so that two nodes that see it use the same id", () => {
    const [one] = firing(step(new Map(), [condition("a")], 5, PACE).state)
    const [two] = firing(step(new Map(), [condition("a")], 5, PACE).state)
    const [later] = firing(step(new Map(), [condition("a")], 6, PACE).state)
    assert.strictEqual(one?.id, two?.id)
    assert.notStrictEqual(one?.id, later?.id)
  })
})

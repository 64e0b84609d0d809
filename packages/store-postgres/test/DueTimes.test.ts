import { assert, describe, it } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import * as DueTimes from "../src/DueTimes.ts"
import type { Entry } from "../src/JobEntry.ts"
import type { Work } from "../src/Work.ts"

/** The due times of a node, at whose last check at time 0 no timer was due within a second. */
const nodeOf = (heartbeat = { isOldest: false, isRecent: true }) => {
  const times = DueTimes.make({ isOldest: () => heartbeat.isOldest, isRecent: () => heartbeat.isRecent })
  assert.isTrue(times.mustAsk(0))
  times.asked(0, Infinity)
  return {
    heartbeat,
    times,
    /** The times at which it must ask, of a check every 250 ms, when no ask finds anything. */
    asks: (from: number, to: number) => {
      const found: Array<number> = []
      for (let now = from; now <= to; now += 250) {
        if (!times.mustAsk(now)) continue
        times.asked(now, Infinity)
        found.push(now)
      }
      return found
    }
  }
}

/** A transaction that writes a timer. */
const writing = (at: number, { cancels = 0, ...changes }: Partial<Entry> & { readonly cancels?: number } = {}): Work => {
  const head = Scenario.record({ notBefore: at })
  return {
    entries: new Map([[head.id, { head, removed: false, stored: undefined, ...changes }]]),
    runWork: { changes: { cancels: Array.from({ length: cancels }) } }
  } as unknown as Work
}

describe("the times at which a node asks for due timers", () => {
  it("are once a second while none is due", () => {
    assert.deepStrictEqual(nodeOf().asks(250, 4_000), [1_000, 2_000, 3_000, 4_000])
    assert.deepStrictEqual(nodeOf({ isOldest: true, isRecent: true }).asks(250, 2_000), [1_000, 2_000])
  })

  it("are those of the timers that it has written, however soon they are due", () => {
    const { asks, times } = nodeOf()
    for (const at of [300, 1_300, 2_900, -5]) times.wrote(writing(at))
    assert.deepStrictEqual(asks(250, 4_000), [250, 500, 1_500, 2_500, 3_000, 4_000])
  })

  it("do not include timers of a transaction that removed or only read them", () => {
    const { asks, times } = nodeOf()
    times.wrote(writing(300, { removed: true }))
    const read = writing(300)
    for (const entry of read.entries.values()) {
      times.wrote({ ...read, entries: new Map([[entry.head.id, { ...entry, stored: entry.head }]]) })
    }
    assert.deepStrictEqual(asks(250, 1_000), [1_000])
  })

  it("include the next check after a transaction that left children to cancel", () => {
    const { asks, times } = nodeOf()
    times.wrote(writing(100_000, { cancels: 1 }))
    assert.deepStrictEqual(asks(250, 1_000), [250])
  })

  it("are, for the oldest node, also those of the timers that it has read, until an ask finds none that is due", () => {
    const { heartbeat, times } = nodeOf()
    times.asked(0, 600)
    assert.isFalse(times.mustAsk(750))
    heartbeat.isOldest = true
    assert.isFalse(times.mustAsk(500))
    assert.isTrue(times.mustAsk(750))
    times.asked(750, 600)
    assert.isTrue(times.mustAsk(1_000))
    times.asked(1_000, Infinity)
    assert.isFalse(times.mustAsk(1_250))
  })

  it("are all times without recent heartbeats, after an ask that failed, and after the clock was set back", () => {
    const { heartbeat, times } = nodeOf()
    assert.isFalse(times.mustAsk(250))
    heartbeat.isRecent = false
    assert.isTrue(times.mustAsk(250))
    heartbeat.isRecent = true
    assert.isTrue(times.mustAsk(500))
    times.asked(500, Infinity)
    assert.isFalse(times.mustAsk(600))
    assert.isTrue(times.mustAsk(-10_000))
  })
})

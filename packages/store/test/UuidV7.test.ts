import { assert, describe, it } from "@effect/vitest"
import { slotOfId, slotOfKey, uuidV7At } from "@stint/store/UuidV7"

describe("uuidV7At", () => {
  it("returns unique UUIDs of version 7", () => {
    const ids = Array.from({ length: 1_000 }, () => uuidV7At(1_763_000_000_000))
    for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    assert.strictEqual(new Set(ids).size, ids.length)
  })

  it("returns ids that sort by time", () => {
    const times = [0, 1, 255, 65_536, 1_763_000_000_000, 1_763_000_000_001, 281_474_976_710_655]
    const ids = times.map((time) => uuidV7At(time))
    assert.deepStrictEqual([...ids].sort(), ids)
  })

  it("keeps ids of one millisecond and slot in the order in which they were made", () => {
    const ids = Array.from({ length: 70_000 }, () => uuidV7At(1_763_000_000_000, 4_095))
    assert.deepStrictEqual([...ids].sort(), ids)
  })

  it("puts the slot into the id and reads it back after any prefix", () => {
    for (const slot of [0, 1, 255, 4_095]) {
      for (const prefix of ["", "sync-", "batch_"]) assert.strictEqual(slotOfId(prefix + uuidV7At(0, slot)), slot)
    }
  })

  it("spreads ids without a slot over all slots", () => {
    const slots = new Set(Array.from({ length: 1_000 }, () => slotOfId(uuidV7At(0))))
    assert.isAbove(slots.size, 500)
    assert.isFalse(slots.has(undefined))
  })

  it("finds no slot in ids of another form", () => {
    for (const id of ["", "job-1", "0af76519-16cd-43dd-8448-eb211c80319c"]) assert.strictEqual(slotOfId(id), undefined)
  })

  it("always gives an idempotency key the same slot, and the same key of another endpoint another slot", () => {
    assert.strictEqual(slotOfKey("letters", "order-1"), 1653)
    assert.notStrictEqual(slotOfKey("numbers", "order-1"), 1653)
  })
})

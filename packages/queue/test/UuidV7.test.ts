import { assert, describe, it } from "@effect/vitest"
import { uuidV7At } from "@stint/queue/UuidV7"

describe("uuidV7At", () => {
  it("returns unique UUIDs of version 7", () => {
    const ids = Array.from({ length: 1_000 }, () => uuidV7At(1_763_000_000_000))
    for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    assert.strictEqual(new Set(ids).size, ids.length)
  })

  it("returns ids that sort by time", () => {
    const times = [0, 1, 255, 65_536, 1_763_000_000_000, 1_763_000_000_001, 281_474_976_710_655]
    const ids = times.map(uuidV7At)
    assert.deepStrictEqual([...ids].sort(), ids)
  })
})

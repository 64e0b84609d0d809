import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import { nodeOf } from "../src/workers/NodeAddress.ts"
import { RunFinish, RunPath, SpawnBody } from "../src/workers/RunJournal.ts"

describe("RunPath", () => {
  const isPath = Schema.is(RunPath)

  it.each(["list", "thumbnail[3]", "extras.cover", "charge~2", "charge~undo", "thumbnail[3]~2", "a[0][1].b-c_d~undo~3"])(
    "accepts %s",
    (path) => {
      expect(isPath(path)).toBe(true)
    }
  )

  it.each(["", "3", "a..b", "a.", "~cancel", "a[x]", "a b", "a~no", "a".repeat(65), "a.".repeat(300) + "a"])(
    "rejects %j",
    (path) => {
      expect(isPath(path)).toBe(false)
    }
  )

  it("gives the address of a path's node in the graph", () => {
    expect(["list", "thumbnail[3]", "extras.cover", "charge~2", "a[0][1].b~undo~3"].map(nodeOf)).toEqual([
      "list",
      "thumbnail",
      "extras.cover",
      "charge",
      "a.b"
    ])
  })
})

describe("SpawnBody", () => {
  const isSpawn = Schema.is(SpawnBody)
  const spawn = (tags: ReadonlyArray<string>) => ({ endpoint: "thumbnail", input: {}, tags })

  it("accepts the tags that a submission may have, and no others", () => {
    expect(isSpawn(spawn(["blue", "x".repeat(64)]))).toBe(true)
    for (const tags of [["a\0b"], [""], ["x".repeat(65)], Array.from({ length: 17 }, (_, n) => `${n}`)]) {
      expect(isSpawn(spawn(tags))).toBe(false)
    }
  })
})

describe("RunFinish", () => {
  const decode = Schema.decodeUnknownSync(RunFinish)

  it("tells an error, a cancel and an output apart", () => {
    expect(decode({ error: "no" })).toEqual({ error: "no" })
    expect(decode({ cancelled: true })).toEqual({ cancelled: true })
    expect(decode({ output: { a: 1 } })).toEqual({ output: { a: 1 } })
    expect(decode({})).toEqual({})
  })
})

/**
 * The bugs of PlantedBugs.long.test.ts can be planted in the sources as they are. That test takes minutes, this one says at once which snippet a
 * change has made out of date.
 */
import { readFileSync } from "node:fs"
import { resolve } from "node:path"
import { describe, expect, it } from "vitest"
import { PLANTS } from "./fixtures/plants.ts"

const PACKAGES = resolve(import.meta.dirname, "../../../packages")

describe("planted bugs", () => {
  it.each(Object.entries(PLANTS))("the snippet of %s occurs exactly once in its source", (_, { file, from, to }) => {
    const source = readFileSync(`${PACKAGES}${file}`, "utf8")
    expect(source.split(from)).toHaveLength(2)
    expect(to).not.toBe(from)
  })
})

import { expect, it } from "@effect/vitest"
import manifest from "../package.json" with { type: "json" }
import { VERSION } from "../src/runtime/Version.ts"

it("is the package's version", () => {
  expect(VERSION).toBe(manifest.version)
})

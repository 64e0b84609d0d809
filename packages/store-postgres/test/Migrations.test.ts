import { assert, describe, it } from "@effect/vitest"
import { hash } from "node:crypto"
import * as Migrations from "../src/Migrations.ts"

/** The hashes of the released steps. Only append. */
const RELEASED = [
  "f88d8c07b690ba08",
  "cf1f0e108cb8bd57",
  "d5e737b650de8658",
  "bf2789134608eaa4",
  "39aca46087b1ce26",
  "8b9ffbf81ce5bdef",
  "f98b38cabf3f37b4",
  "4ca8476308139dcf",
  "2c269f65302b7956",
  "9f3805dfbfe57326",
  "587d1f9b177a8d81",
  "fdcefcf83c8c3ea5",
  "8b21515c0e268638",
  "0eff95817ce5814d",
  "fae4d1ffa9b92c9a"
]

describe("migrations", () => {
  it("changes no released step", () => {
    assert.deepStrictEqual(Migrations.steps.map((step) => hash("sha256", step, "hex").slice(0, 16)), RELEASED)
  })
})

import { assert, describe, it } from "@effect/vitest"
import { EndpointSpec } from "@stint/contract/Endpoint"
import * as Schema from "effect/Schema"
import { diffSettings } from "../src/ReleaseDiff.ts"

const spec = (settings: object) =>
  Schema.decodeUnknownSync(EndpointSpec)({ id: "words", source: { type: "command", command: ["words"] }, ...settings })

describe("the difference of settings", () => {
  it("names each variable that is added or removed, and not the object that was empty", () => {
    const [none, some] = [spec({}), spec({ env: { CITY: "Bern", TOKEN: { secret: "hub" } } })]
    assert.deepStrictEqual(diffSettings(none, some), [
      { path: "env.CITY", after: "Bern" },
      { path: "env.TOKEN.secret", after: "hub" }
    ])
    assert.deepStrictEqual(diffSettings(some, none), [
      { path: "env.CITY", before: "Bern" },
      { path: "env.TOKEN.secret", before: "hub" }
    ])
    assert.deepStrictEqual(diffSettings(some, some), [])
  })

  it("contains every setting of a first release", () => {
    const paths = diffSettings(undefined, spec({})).map(({ path }) => path)
    assert.includeMembers(paths, ["env", "source.command", "workers.max"])
  })
})

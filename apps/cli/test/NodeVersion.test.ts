import { assert, describe, it } from "@effect/vitest"
import manifest from "../package.json" with { type: "json" }
import { problemOf, SUPPORTED } from "../src/NodeVersion.ts"

describe("NodeVersion", () => {
  it("accepts the versions that `engines` names, and only these", () => {
    assert.strictEqual(manifest.publishConfig.engines.node, SUPPORTED)
    for (const version of ["22.19.0", "22.23.3", "24.0.0", "26.10.0", "27.0.0-nightly"]) {
      assert.isUndefined(problemOf(version), version)
    }
    for (const version of ["14.21.3", "18.20.8", "20.20.2", "22.18.0", "23.11.1"]) {
      assert.match(
        problemOf(version) ?? "",
        new RegExp(`Node ${version.replaceAll(".", "\\.")}\\. It needs Node 24 .*nvm install 24`, "s")
      )
    }
  })
})

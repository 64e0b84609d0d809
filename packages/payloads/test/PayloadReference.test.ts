import { assert, describe, it } from "@effect/vitest"
import { JsonText } from "@stint/contract/Json"
import * as fc from "fast-check"
import * as PayloadReference from "../src/PayloadReference.ts"
import { PayloadKey } from "../src/PayloadStore.ts"

describe("references", () => {
  it("are found wherever rows are embedded in text, and no other text is treated as a reference", () => {
    const bytes = 5
    const reference = PayloadReference.referenceToRow({ key: PayloadKey.make("a/b/c"), bytes, digest: "d".repeat(43) })
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.json(), fc.constant(reference)), { minLength: 1 }), (pieces) => {
        const parts = PayloadReference.partsOf(pieces.join(","))
        const count = pieces.filter((piece) => piece === reference).length
        assert.strictEqual(parts?.filter((part) => part._tag === "Reference").length ?? 0, count)
        assert.isFalse(parts?.some((part) => part._tag === "Broken") ?? false)
      })
    )
  })

  it("of an unknown format are broken, and never treated as text", () => {
    for (
      const row of [
        "\u0001\u0001",
        "\u0001",
        "\u0001x",
        "\u0001../../etc 1 " + "d".repeat(43) + "\u0001",
        "\u0001=1\u0001",
        "\u0001=\u0001"
      ]
    ) {
      assert.strictEqual(PayloadReference.parse(JsonText.make(row))._tag, "Broken", JSON.stringify(row))
    }
  })
})

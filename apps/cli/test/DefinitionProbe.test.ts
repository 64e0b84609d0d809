import { assert, describe, it } from "@effect/vitest"
import { EndpointSpec } from "@stint/contract/Endpoint"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { vi } from "vitest"
import * as DefinitionProbe from "../src/deploy/DefinitionProbe.ts"

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "stint-probe-"))),
  (path) => Effect.promise(() => rm(path, { recursive: true }))
)

describe("the definition of a handler before its deployment", () => {
  it.live("starts the handler with the operator's variables and those of its endpoint, but without the platform's settings", () =>
    Effect.gen(function*() {
      vi.stubEnv("STINT_API_KEY", "rpa_0123456789abcdef")
      vi.stubEnv("MODEL_FOLDER", "/models")
      yield* Effect.addFinalizer(() => Effect.sync(() => vi.unstubAllEnvs()))
      const file = join(yield* folder, "handler.mjs")
      const { env } = process
      assert.strictEqual(env["STINT_API_KEY"], "rpa_0123456789abcdef")
      yield* Effect.promise(() =>
        writeFile(
          file,
          "const { MODEL_FOLDER, SIZE, STINT_API_KEY } = process.env; console.log(`Error: ${MODEL_FOLDER} ${SIZE} ${STINT_API_KEY}`)"
        )
      )
      const spec = Schema.decodeUnknownSync(EndpointSpec)({ id: "probed", source: { type: "handler", file }, env: { SIZE: "7" } })
      const { message } = yield* Effect.flip(DefinitionProbe.graphOf(spec))
      assert.include(message, "Error: /models 7 undefined")
    }))
})

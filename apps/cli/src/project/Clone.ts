/**
 * Finds the clone of the repository that this command runs from.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"

const decodeName = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Struct({ name: Schema.Literal("@stint/sdk") })))

/** The root of the clone; undefined for an installed package. */
export const root = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const folder = path.resolve(import.meta.dirname, "../../../..")
  const manifest = fs.readFileString(path.join(folder, "packages/sdk/package.json"))
  return yield* Effect.match(Effect.flatMap(manifest, decodeName), { onFailure: () => undefined, onSuccess: () => folder })
})

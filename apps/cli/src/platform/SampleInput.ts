/**
 * Finds the sample input of an endpoint: the `test_input.json` next to its handler.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({ input: Schema.Json })))

/** The longest input that fits into a command line. Characters. */
const MAX_LENGTH = 200

/** Finds the oldest endpoint that has a short test input. */
export const findSampleInput = Effect.fnUntraced(function*(endpoints: ReadonlyArray<Endpoint>) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const candidates: Array<{ readonly endpoint: string; readonly input: unknown; readonly length: number }> = []
  for (const { id, source } of endpoints) {
    if (source.type !== "handler") continue
    const text = yield* Effect.option(fs.readFileString(path.join(path.dirname(source.file), "test_input.json")))
    const sample = Option.flatMap(text, decode)
    if (Option.isNone(sample)) continue
    const length = JSON.stringify(sample.value.input).length
    if (length <= MAX_LENGTH) candidates.push({ endpoint: id, input: sample.value.input, length })
  }
  return candidates.find(({ endpoint }) => endpoint === "hello") ?? candidates[0]
})

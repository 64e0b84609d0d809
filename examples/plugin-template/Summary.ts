/**
 * A handler that counts its usage: it returns the first words of a text, and counts each word of the text as one token.
 */
import { Handler } from "@stint/worker"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Usage } from "./src/index.ts"

export const Summary = Handler.make("summary", {
  input: Schema.Struct({ text: Schema.NonEmptyString, words: Schema.Int }),
  output: Schema.Struct({ summary: Schema.String }),
  error: Usage.LimitExceeded,
  run: Effect.fn("summary")(function*({ text, words }) {
    const all = text.split(/\s+/)
    yield* Usage.add("tokens", all.length)
    return { summary: all.slice(0, words).join(" ") }
  })
})

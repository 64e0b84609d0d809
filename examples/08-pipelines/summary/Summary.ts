/**
 * A document pipeline: splits a text into paragraphs, counts the words in each, and adds up the counts.
 */
import { Pipeline } from "@stint/pipelines"
import * as Schema from "effect/Schema"

const Counts = Schema.Record(Schema.String, Schema.Number)

const countWords = (text: string): { readonly [word: string]: number } => {
  const counts = new Map<string, number>()
  for (const word of text.toLowerCase().match(/\p{L}+/gu) ?? []) counts.set(word, (counts.get(word) ?? 0) + 1)
  return Object.fromEntries(counts)
}

export const Summary = Pipeline.make("summary", { input: Schema.Struct({ text: Schema.String }) })
  .step("split", ({ text }) => text.split("\n\n").filter((paragraph) => paragraph.trim() !== ""))
  .forEach("count", countWords, { concurrency: 16 })
  .step("reduce", (counts) => {
    const total = new Map<string, number>()
    for (const [word, n] of counts.flatMap((one) => Object.entries(one))) total.set(word, (total.get(word) ?? 0) + n)
    return Object.fromEntries(total)
  })
  .end(Counts)

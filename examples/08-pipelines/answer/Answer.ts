/**
 * A streaming chain, as with language models: the first model plans, the second one writes, and callers receive its words as they arrive. The
 * models are fake: they repeat the question.
 */
import { Pipeline } from "@stint/pipelines"
import { Handler } from "@stint/worker"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

const Model = Handler.makeStream("model", {
  input: Schema.Struct({ prompt: Schema.String }),
  output: Schema.String,
  run: ({ prompt }) => Stream.fromIterable(prompt.match(/\S+\s*/g) ?? [])
})

export const Answer = Pipeline.make("answer", { input: Schema.Struct({ question: Schema.String }) })
  .step("plan", async ({ question }) => ({ prompt: `You asked: ${question}` }))
  .stream("words", Model)
  .step("answer", (words) => words.join(""))
  .end(Schema.String)

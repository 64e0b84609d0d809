/**
 * The endpoint `words-count`: counts words.
 */
import { Handler, Worker } from "@stint/worker"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

const Count = Handler.make("words-count", {
  input: Schema.Struct({ words: Schema.Array(Schema.String) }),
  output: Schema.Struct({ count: Schema.Number, longest: Schema.String }),
  run: ({ words }) =>
    Effect.succeed({
      count: words.length,
      longest: words.reduce((longest, word) => word.length > longest.length ? word : longest, "")
    })
})

Worker.launch(Worker.layer(Count))

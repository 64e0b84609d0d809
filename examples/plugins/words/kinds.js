/**
 * The step kind `words.split`. Pipelines in TypeScript import it, and pipeline files refer to it by name.
 */
import { StepKind } from "@stint/pipelines"
import * as Schema from "effect/Schema"

export const Split = StepKind.make("words.split", {
  input: Schema.String,
  output: Schema.Array(Schema.String),
  options: Schema.Struct({ by: Schema.String }),
  run: (text, { by }) => text.split(by).filter((word) => word !== "")
})

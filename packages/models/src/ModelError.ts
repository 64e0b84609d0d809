/**
 * Why a model is not on this machine. The messages contain no token.
 */
import * as Schema from "effect/Schema"

export class ModelError extends Schema.TaggedError<ModelError>()("ModelError", {
  /** `owner/name` or `owner/name@revision`. */
  model: Schema.String,
  /** The problem, without a full stop: "the hub responded with status 404". */
  problem: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String,
  /** Whether another attempt may succeed without a change by the operator. */
  isTransient: Schema.Boolean
}) {
  override get message(): string {
    return `The model ${this.model} cannot be downloaded: ${this.problem}. ${this.hint}`
  }
}

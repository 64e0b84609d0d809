/**
 * A command that failed for a reason its user can fix: one sentence, and a hint. Printed without a stack trace; the exit code is 1.
 */
import { CliError } from "effect/cli"
import * as Schema from "effect/Schema"

export class CliFailure extends Schema.TaggedError<CliFailure>()("CliFailure", {
  message: Schema.String,
  hint: Schema.String
}) {
  override get [CliError.userMessage](): string {
    return this.hint === "" ? this.message : `${this.message}\n  ${this.hint}`
  }
}

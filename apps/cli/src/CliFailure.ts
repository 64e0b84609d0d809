/**
 * The error of a command that failed for a reason that its user can fix. It consists of one sentence and a hint, and is printed without a
 * stack trace. The exit code is 1.
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

/**
 * The error of a command that failed for a reason that its user can fix. It consists of one sentence and a hint, and is printed without a
 * stack trace. The exit code is 1.
 */
import { escapeUnprintable } from "@stint/contract/PrintableText"
import { CliError } from "effect/cli"
import * as Schema from "effect/Schema"

export class CliFailure extends Schema.TaggedError<CliFailure>()("CliFailure", {
  message: Schema.String,
  hint: Schema.String
}) {
  override get [CliError.userMessage](): string {
    const text = this.hint === "" ? this.message : `${this.message}\n${this.hint}`
    // Indents every line as the first one, because a message may contain text from a caller or a worker.
    return escapeUnprintable(text).replaceAll(/\n(?! )/g, "\n  ")
  }
}

/**
 * The error of a command that failed for a reason that the user can fix. It consists of one sentence and a hint, and is printed without a
 * stack trace. The exit code is 1.
 *
 * `code`, `status` and `issues` are for programs that read the error with `--json` (docs/reference/cli.md#errors).
 */
import { escapeUnprintable } from "@stint/contract/PrintableText"
import { CliError } from "effect/cli"
import * as Schema from "effect/Schema"

export class CliFailure extends Schema.TaggedError<CliFailure>()("CliFailure", {
  message: Schema.String,
  hint: Schema.String,
  /** A stable error code: the last part of a problem's `type`, or one of the command line's own codes. Default: `failed`. */
  code: Schema.optionalKey(Schema.String),
  /** The status of the platform's response. */
  status: Schema.optionalKey(Schema.Int),
  /** The invalid values that the platform lists. */
  issues: Schema.optionalKey(
    Schema.Array(Schema.Struct({ path: Schema.Array(Schema.Union([Schema.String, Schema.Finite])), message: Schema.String }))
  )
}) {
  override get [CliError.userMessage](): string {
    const text = this.hint === "" ? this.message : `${this.message}\n${this.hint}`
    // Indents every line like the first one, because a message may contain text from a caller or a worker.
    return escapeUnprintable(text).replaceAll(/\n(?! )/g, "\n  ")
  }
}

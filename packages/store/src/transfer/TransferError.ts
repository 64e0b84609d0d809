/** Why rows could not be handed from one store to another. */
import * as Schema from "effect/Schema"

/** A row of the source cannot be read. */
export class RowUnreadable extends Schema.TaggedError<RowUnreadable>()("RowUnreadable", { problem: Schema.String }) {}

/** The tables of the source have an older version than this program. */
export class SourceOlder extends Schema.TaggedError<SourceOlder>()("SourceOlder", {
  version: Schema.Int,
  needed: Schema.Int
}) {}

/** The target can never store a row of the source. */
export class RowRefused extends Schema.TaggedError<RowRefused>()("RowRefused", { problem: Schema.String }) {}

/** The target rejected rows, or could not be reached. */
export class TargetFailed extends Schema.TaggedError<TargetFailed>()("TargetFailed", { problem: Schema.String }) {}

/** After the copy, the target's rows differ from the source's. `key`: the first key with a difference. */
export class RowsDiffer extends Schema.TaggedError<RowsDiffer>()("RowsDiffer", {
  key: Schema.String,
  difference: Schema.String
}) {}

/** The rows of a table could not be handed over. */
export class TransferError extends Schema.TaggedError<TransferError>()("TransferError", {
  table: Schema.String,
  reason: Schema.Union([RowUnreadable, SourceOlder, RowRefused, TargetFailed, RowsDiffer])
}) {
  override get message(): string {
    const { reason, table } = this
    switch (reason._tag) {
      case "RowUnreadable":
        return `The table ${table} of the source cannot be read: ${reason.problem}.`
      case "SourceOlder":
        return `The tables of the source have version ${reason.version}; this version of Stint reads version ${reason.needed}.`
      case "RowRefused":
        return `The target cannot store a row of the table ${table}: ${reason.problem}.`
      case "TargetFailed":
        return `The target did not store rows of the table ${table}: ${reason.problem}.`
      case "RowsDiffer":
        return `The table ${table} differs after the copy, first at the key ${reason.key}: ${reason.difference}.`
    }
  }
}

/**
 * The error of a failed fitness check.
 */
import * as Schema from "effect/Schema"

/**
 * A check has failed. The message names the actual and the required value, in one sentence without a full stop: the worker's log and the
 * platform show it after the name of the check. The platform stores its first 256 characters, so the important part comes first.
 */
export class FitnessCheckFailed extends Schema.TaggedError<FitnessCheckFailed>()("FitnessCheckFailed", {
  /** The name of the check, such as `memory`. */
  check: Schema.String,
  message: Schema.String
}) {}

/** The variable of a threshold in brackets, ` (PLATFORM_MIN_MEMORY_GB)`, or an empty string if it has none. */
export const settingSuffix = (setting: string | undefined): string => setting === undefined ? "" : ` (${setting})`

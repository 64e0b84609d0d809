/**
 * Why a machine is not fit for a worker.
 */
import * as Schema from "effect/Schema"

/**
 * A check has failed. The message says what was found and what is required, in one sentence without its full stop: the worker's log
 * and the platform show it behind the name of the check. The platform keeps 256 characters of it, so what matters comes first.
 */
export class FitnessCheckFailed extends Schema.TaggedError<FitnessCheckFailed>()("FitnessCheckFailed", {
  /** The name of the check, such as `memory`. */
  check: Schema.String,
  message: Schema.String
}) {}

/** ` (PLATFORM_MIN_MEMORY_GB)`: where a threshold comes from, or nothing where nobody said. */
export const settingSuffix = (setting: string | undefined): string => setting === undefined ? "" : ` (${setting})`

/**
 * The condition of the store, for operators.
 */
import * as Context from "effect/Context"

/** Default: a store that never lacks space, such as one in memory or in a database on another machine. */
export const StoreCondition = Context.Reference<{
  /** Whether new jobs are rejected for lack of free space. Reads no file. */
  readonly isLow: () => boolean
}>("@stint/store/StoreCondition", { defaultValue: () => ({ isLow: () => false }) })

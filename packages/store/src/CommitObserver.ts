/**
 * Called by stores with group commit after each transaction, with the number of writes that shared it. Default: does nothing.
 */
import * as Context from "effect/Context"

export const CommitObserver = Context.Reference<(writes: number) => void>("@stint/store/CommitObserver", {
  defaultValue: () => () => {}
})

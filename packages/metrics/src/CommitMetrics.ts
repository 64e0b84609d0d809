/**
 * Counts the writes that share a transaction of the database (group commit).
 */
import { CommitObserver } from "@stint/store/CommitObserver"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import { COMMIT_WRITES } from "./MetricLabels.ts"

const writes = Metric.histogram("stint_store_commit_writes", {
  description: "The number of writes that shared a transaction.",
  boundaries: COMMIT_WRITES
})

/** Must be provided to the stores. The memory store has no transactions. */
export const layer: Layer.Layer<never> = Layer.effect(
  CommitObserver,
  Effect.map(Effect.context(), (context) => (count: number) => writes.updateUnsafe(count, context))
)

/**
 * Measures the starts of workers, part by part.
 */
import { partsOf, StartObserver } from "@stint/queue/WorkerStarts"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import { EndpointLabels, LIFETIME_SECONDS } from "./MetricLabels.ts"

const coldStart = (endpoint: string, part: string) =>
  Metric.histogram("stint_cold_start_seconds", {
    description: "How long the parts of a worker's start took, and the whole start (total).",
    boundaries: LIFETIME_SECONDS,
    attributes: { endpoint, part }
  })

/** Must be provided to the registry of workers. Counts the workers that this node has started, when they first ask for a job. */
export const layer: Layer.Layer<never> = Layer.effect(
  StartObserver,
  Effect.map(Effect.context(), (context) => {
    const labels = new EndpointLabels()
    return ({ endpoint, start }) => {
      const label = labels.of(endpoint)
      const parts = partsOf(start)
      for (const [part, millis] of Object.entries(parts)) coldStart(label, part).updateUnsafe(millis / 1_000, context)
      const total = Object.values(parts).reduce((sum, millis) => sum + millis, 0)
      coldStart(label, "total").updateUnsafe(total / 1_000, context)
    }
  })
)

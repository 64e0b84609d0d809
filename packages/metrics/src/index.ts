/**
 * Metrics of a platform, for Prometheus.
 *
 * ```
 *   queues --> layerStores --> stores        counts and histograms, in the registry of layerRegistry
 *   layerObservers                           histograms of commits and of workers' starts
 *   layerPage: GET /metrics                  the registry, and the state at this moment
 *   layerHistory: the API's history          the last hour of each endpoint
 * ```
 */
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as CommitMetrics from "./CommitMetrics.ts"
import * as History from "./History.ts"
import * as JobMetrics from "./JobMetrics.ts"
import * as MetricsPage from "./MetricsPage.ts"
import * as PlatformGauges from "./PlatformGauges.ts"
import * as StartMetrics from "./StartMetrics.ts"
import * as WebhookMetrics from "./WebhookMetrics.ts"

/** The stores of jobs, batches, runs and webhooks, measured. */
export const layerStores = Layer.merge(JobMetrics.layer, WebhookMetrics.layer)

/** What the stores and the registry of workers report. Must be provided to them, with the registry of metrics. */
export const layerObservers = Layer.merge(CommitMetrics.layer, StartMetrics.layer)

/** The route `/metrics`, for `Server.layerWith`. */
export const layerPage = MetricsPage.layer.pipe(Layer.provide(PlatformGauges.layer))

/** The last hour of the endpoints, for the API. Needs the counts of `layerStores`. */
export const layerHistory = History.layer

/** A registry for one platform, so that two platforms in one process do not share their counts. */
export const layerRegistry = Layer.sync(Metric.MetricRegistry, () => new Map())

export { JobCounters } from "./JobMetrics.ts"

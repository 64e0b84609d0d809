/**
 * Sends the metrics of `/metrics` to a collector over OTLP/HTTP, once per interval and when the platform stops.
 *
 * ```
 *   the registry (counts) + PlatformGauges (the state now) --> one snapshot --> POST --> the collector
 * ```
 *
 * Values are cumulative, so a failed export loses nothing: the next one contains the same counts. An outage is logged once when it begins and once
 * when it ends. `stint_event_loop_delay_seconds` covers the time since the last reading, by Prometheus or by this export.
 */
import type { MetricSettings } from "@stint/otel/OtlpConfig"
import * as OutageLog from "@stint/store/OutageLog"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpClient } from "effect/http"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import { OtlpExporter, OtlpMetrics, OtlpSerialization } from "effect/observability"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as PlatformGauges from "./PlatformGauges.ts"

/** The service name when no variable sets it. */
const SERVICE_NAME = "stint"

/** The exporter's own timer is not used, because each export needs new gauges first. */
const NEVER = "3650 days"

/** Logs when exports begin to fail, and when they succeed again. */
const logged = (http: HttpClient.HttpClient, url: string): HttpClient.HttpClient => {
  const outage = OutageLog.make({
    onFailure: (problem) =>
      Effect.logWarning(
        `Metrics cannot be sent to ${url}: ${problem}. Jobs continue, and the next export contains all counts. ` +
          "Check OTEL_EXPORTER_OTLP_ENDPOINT, or set OTEL_METRICS_EXPORTER=none."
      ),
    onRecovery: Effect.logInfo("Metrics are sent again.")
  })
  return http.pipe(
    HttpClient.tap(({ status }) =>
      status >= 200 && status < 300 ? outage.succeeded : outage.failed(`the collector responded with status ${status}`)
    ),
    HttpClient.tapError(({ message }) => outage.failed(message))
  )
}

const make = Effect.fnUntraced(function*(settings: MetricSettings) {
  const gauges = yield* PlatformGauges.PlatformGauges
  const registry = yield* Metric.MetricRegistry
  const { flush } = yield* OtlpExporter.Flusher
  const snapshot: typeof registry = new Map()
  yield* OtlpMetrics.make({
    url: settings.url,
    headers: Redacted.value(settings.headers),
    compression: settings.compression,
    resource: { serviceName: settings.serviceName ?? SERVICE_NAME, attributes: settings.resource },
    exportInterval: NEVER
  }).pipe(Effect.provideService(Metric.MetricRegistry, snapshot))

  const read = Effect.map(gauges.take, (state) => {
    snapshot.clear()
    for (const source of [registry, Context.get(state, Metric.MetricRegistry)]) {
      for (const [key, metric] of source) snapshot.set(key, metric)
    }
  })
  yield* Effect.andThen(read, flush).pipe(
    Effect.timeout(settings.timeout),
    // The client logs the collector's failures, and the queue logs the store's.
    Effect.ignore,
    Effect.repeat(Schedule.spaced(settings.interval)),
    Effect.delay(settings.interval),
    Effect.forkScoped
  )
  // Runs before the exporter's own finalizer, which sends the snapshot.
  yield* Effect.addFinalizer(() => Effect.ignore(read))
})

/** Exports while the layer's scope is open. */
export const layer = (settings: MetricSettings) =>
  Layer.effectDiscard(make(settings)).pipe(
    Layer.provide([
      PlatformGauges.layer,
      OtlpExporter.layerFlusher,
      settings.protocol === "http/json" ? OtlpSerialization.layerJson : OtlpSerialization.layerProtobuf,
      Layer.effect(HttpClient.HttpClient, Effect.map(HttpClient.HttpClient, (http) => logged(http, settings.url)))
    ])
  )

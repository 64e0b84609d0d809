/**
 * Traces and log lines of a platform's jobs, exported over OTLP.
 *
 * ```
 *   queues --> layerStores --> stores        spans, from the times of the jobs --> SpanExport --> the collector
 *   JobLogs --> layerLogs --> JobLogStore    records, from the stored lines    --> LogExport  --> the collector
 * ```
 */
import * as LogExport from "@stint/otel/LogExport"
import type * as OtlpConfig from "@stint/otel/OtlpConfig"
import * as SpanExport from "@stint/otel/SpanExport"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as JobLogExport from "./JobLogExport.ts"
import * as JobTraces from "./JobTraces.ts"
import { type JobTrace, samplerOf, traceOf } from "./TraceIds.ts"
import * as WebhookTraces from "./WebhookTraces.ts"

const sent = Metric.counter("stint_trace_spans_sent_total", {
  description: "Spans that the collector accepted.",
  incremental: true
})
const lost = Metric.counter("stint_trace_spans_lost_total", {
  description: "Spans that were not sent, because the collector did not accept them in time or the queue was full.",
  incremental: true
})

const linesSent = Metric.counter("stint_log_lines_sent_total", {
  description: "Log lines of jobs that the collector accepted.",
  incremental: true
})
const linesLost = Metric.counter("stint_log_lines_lost_total", {
  description: "Log lines of jobs that were not sent, because the collector did not accept them in time or the queue was full.",
  incremental: true
})

/** The store of job logs, exported as the settings specify. `traces`: the settings of traces, if there are any. */
export const layerLogs = (settings: OtlpConfig.LogSettings, traces: OtlpConfig.Settings | undefined) =>
  Layer.unwrap(Effect.gen(function*() {
    const context = yield* Effect.context()
    linesSent.updateUnsafe(0, context)
    linesLost.updateUnsafe(0, context)
    const records = yield* LogExport.make({
      settings,
      identity: { serviceName: "stint", attributes: {} },
      scope: { name: "@stint/traces" },
      counts: { sent: (count) => linesSent.updateUnsafe(count, context), lost: (count) => linesLost.updateUnsafe(count, context) }
    })
    return JobLogExport.layer(records, traces === undefined ? undefined : samplerOf(traces))
  }))

/** Finds the id of a job's trace, from the context that its caller sent; undefined if the trace is not recorded. */
export const traceIds = (settings: OtlpConfig.Settings) => {
  const sampler = samplerOf(settings)
  return (job: string, context: Parameters<typeof traceOf>[1]): JobTrace["traceId"] | undefined => {
    const { sampled, traceId } = traceOf(job, context, sampler)
    return sampled ? traceId : undefined
  }
}

/** The stores of jobs, batches, runs and webhooks, traced as the settings specify. */
export const layerStores = (settings: OtlpConfig.Settings) =>
  Layer.unwrap(Effect.gen(function*() {
    const context = yield* Effect.context()
    // The series exist before the first span.
    sent.updateUnsafe(0, context)
    lost.updateUnsafe(0, context)
    const spans = yield* SpanExport.make({
      settings,
      identity: { serviceName: "stint", attributes: {} },
      scope: { name: "@stint/traces" },
      counts: { sent: (count) => sent.updateUnsafe(count, context), lost: (count) => lost.updateUnsafe(count, context) }
    })
    const sampler = samplerOf(settings)
    return Layer.merge(JobTraces.layer(spans, sampler), WebhookTraces.layer(spans, sampler))
  }))

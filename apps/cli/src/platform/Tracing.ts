/**
 * Traces, metrics and log lines over OTLP, when the environment configures them with OpenTelemetry's variables. Otherwise no module is loaded and the stores are
 * not wrapped.
 */
import { parseTraceparent } from "@stint/contract/TraceContext"
import * as OtlpConfig from "@stint/otel/OtlpConfig"
import type { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { TraceLinks } from "@stint/server/TraceLinks"
import type { BatchStore } from "@stint/store/BatchStore"
import type { EndpointStore } from "@stint/store/EndpointStore"
import type { JobLogStore } from "@stint/store/JobLogStore"
import { JobStore, type JobTraceContext } from "@stint/store/JobStore"
import type { RunStore } from "@stint/store/RunStore"
import type { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import type { ConfigError } from "effect/Config"
import * as Effect from "effect/Effect"
import { FetchHttpClient } from "effect/http"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { CliFailure } from "../CliFailure.ts"
import { urlOf } from "../config/TraceUrl.ts"

/** The stores whose changes are traced. */
type Traced = JobStore | BatchStore | RunStore | WebhookStore | WebhookAttemptStore

const failureOf = ({ message }: ConfigError): CliFailure =>
  new CliFailure({
    message: `An OpenTelemetry variable is invalid: ${message}`,
    hint: "Correct it, or set OTEL_SDK_DISABLED=true to start without traces and metrics over OTLP."
  })

/** The stores, traced if the environment configures traces. */
export const layerStores: Layer.Layer<Traced, CliFailure, Traced | WorkerRegistry> = Layer.unwrap(Effect.gen(function*() {
  const settings = yield* Effect.mapError(OtlpConfig.settings, failureOf)
  if (settings === undefined) return Layer.effectContext(Effect.context<Traced>())
  const { layerStores } = yield* Effect.promise(() => import("@stint/traces"))
  return Layer.provide(layerStores(settings), FetchHttpClient.layer)
}))

/** The store of job logs, which also sends the lines to a collector if the environment configures that. */
export const layerLogs: Layer.Layer<JobLogStore, CliFailure, JobLogStore | JobStore> = Layer.unwrap(Effect.gen(function*() {
  const settings = yield* Effect.mapError(OtlpConfig.logSettings, failureOf)
  if (settings === undefined) return Layer.effectContext(Effect.context<JobLogStore>())
  const traces = yield* Effect.mapError(OtlpConfig.settings, failureOf)
  const { layerLogs } = yield* Effect.promise(() => import("@stint/traces"))
  return Layer.provide(layerLogs(settings, traces), FetchHttpClient.layer)
}))

/** The trace of a job, if it is recorded. Without traces of the platform, the worker continues the caller's trace. */
const recordedTrace = Effect.gen(function*() {
  const settings = yield* Effect.mapError(OtlpConfig.settings, failureOf)
  if (settings === undefined) {
    return (_: string, { traceparent }: Pick<JobTraceContext, "traceparent">) => {
      const caller = traceparent === null ? undefined : parseTraceparent(traceparent)
      return caller?.sampled === true ? caller.traceId : undefined
    }
  }
  const { traceIds } = yield* Effect.promise(() => import("@stint/traces"))
  return traceIds(settings)
})

/** Links to the traces of jobs, if the address of the viewer is configured. */
export const layerLinks = (template: Option.Option<string>): Layer.Layer<never, CliFailure, JobStore> =>
  Option.match(template, {
    onNone: () => Layer.empty,
    onSome: (template) =>
      Layer.effect(
        TraceLinks,
        Effect.gen(function*() {
          const jobs = yield* JobStore
          const traceIdOf = yield* recordedTrace
          return ({ endpoint, id }) =>
            Effect.map(jobs.traceOf(endpoint, id), (context) => {
              const traceId = context === undefined ? undefined : traceIdOf(id, context)
              return traceId === undefined ? undefined : { id: traceId, url: urlOf(template, traceId) }
            })
        })
      )
  })

/** Sends the metrics to a collector if the environment configures one. */
export const layerMetrics: Layer.Layer<never, CliFailure, EndpointStore | JobStore | WorkerRegistry> = Layer.unwrap(
  Effect.gen(function*() {
    const settings = yield* Effect.mapError(OtlpConfig.metricSettings, failureOf)
    if (settings === undefined) return Layer.empty
    const OtlpExport = yield* Effect.promise(() => import("@stint/metrics/OtlpExport"))
    return Layer.provide(OtlpExport.layer(settings), FetchHttpClient.layer)
  })
)

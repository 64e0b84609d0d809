/**
 * Traces of jobs, by OpenTelemetry.
 *
 * ```
 *   OTEL_SDK_DISABLED=true                               nothing
 *   an SDK was registered before the worker started      our spans go where its spans go
 *   OTEL_EXPORTER_OTLP_ENDPOINT or the like              our own SDK, which exports by OTLP over HTTP
 *   none of these                                        nothing: no module is loaded, no span is made
 * ```
 *
 * A job's spans (`@stint/worker/Spans`) join the trace of whoever submitted it, and spans that the handler's own code opens by
 * `@opentelemetry/api`, instrumented HTTP clients among it, are children of the job's `handler`. `OtlpConfig` has the variables.
 */
import * as OtelSdk from "@stint/otel/OtelSdk"
import type { OtelTracer } from "@stint/otel/OtelTracer"
import * as OtlpConfig from "@stint/otel/OtlpConfig"
import { ActiveSpan } from "@stint/worker/Spans"
import { WorkerConfig } from "@stint/worker/WorkerConfig"
import type { ConfigError } from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"

/** Where there is no endpoint to name the service after. */
const SERVICE_NAME = "stint-worker"

/** An endpoint is a service, and each of its workers one instance of it. */
const identity = Effect.map(Effect.serviceOption(WorkerConfig), (config): OtelSdk.Identity =>
  Option.match(config, {
    onNone: () => ({ serviceName: SERVICE_NAME, attributes: {} }),
    onSome: ({ endpoint = SERVICE_NAME, identity: { hostname, workerId } }) => ({
      serviceName: endpoint,
      attributes: { "service.instance.id": workerId, "host.name": hostname }
    })
  }))

/** What a tracer puts into the context of a worker. */
const contextOf = ({ activeSpan, tracer }: OtelTracer): Context.Context<never> =>
  Context.add(Context.make(Tracer.Tracer, tracer), ActiveSpan, activeSpan)

/**
 * Traces, where the environment asks for them; empty, and free, where it does not.
 *
 * Provide it to the worker, around everything whose spans are wanted. The last spans are sent when it closes, which is after the worker
 * has delivered its last result. Fails when a variable makes no sense.
 *
 * @example
 * ```ts
 * Worker.layer(Thumbnail).pipe(
 *   Layer.provide(Telemetry.layer),
 *   Worker.launch
 * )
 * ```
 */
export const layer: Layer.Layer<never, ConfigError> = Layer.effectContext(Effect.gen(function*() {
  if (yield* OtlpConfig.disabled) return Context.empty()
  if (OtelSdk.isRegistered()) return contextOf(yield* OtelSdk.attachToRegistered)
  const settings = yield* OtlpConfig.settings
  return settings === undefined ? Context.empty() : contextOf(yield* OtelSdk.startOtlp(settings, yield* identity))
}))

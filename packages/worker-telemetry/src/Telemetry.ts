/**
 * Traces jobs with OpenTelemetry.
 *
 * ```
 *   OTEL_SDK_DISABLED=true                    no traces
 *   the program has registered an SDK         the worker's spans go to that SDK
 *   OTEL_EXPORTER_OTLP_ENDPOINT or the like   our own SDK, which exports OTLP over HTTP
 *   none of these                             no traces: no module is loaded, no span is created
 * ```
 *
 * A job's spans (`@stint/worker/Spans`) are part of its caller's trace. Spans that the handler's own code starts with `@opentelemetry/api`,
 * including those of instrumented HTTP clients, are children of the job's `handler` span. `OtlpConfig` lists the variables.
 */
import * as OtelSdk from "@stint/otel/OtelSdk"
import { WorkerConfig } from "@stint/worker/WorkerConfig"
import type { ConfigError } from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { contextOf, tracerOptions } from "./WorkerTracer.ts"

/** The service name of a worker without an endpoint. */
const SERVICE_NAME = "stint-worker"

/** Each endpoint is a service, and each of its workers is an instance of that service. */
const identity = Effect.map(Effect.serviceOption(WorkerConfig), (config): OtelSdk.Identity =>
  Option.match(config, {
    onNone: () => ({ serviceName: SERVICE_NAME, attributes: {} }),
    onSome: ({ endpoint = SERVICE_NAME, identity: { hostname, workerId } }) => ({
      serviceName: endpoint,
      attributes: { "service.instance.id": workerId, "host.name": hostname }
    })
  }))

/**
 * Traces jobs when the environment configures traces. Otherwise the layer is empty and costs nothing.
 *
 * Provide it to the worker, outside all layers that should be traced. It sends the last spans when it closes, after the worker has
 * delivered its last result. Fails with a `ConfigError` when a variable is invalid.
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
  const tracer = yield* OtelSdk.fromEnvironment(yield* identity, tracerOptions)
  return tracer === undefined ? Context.empty() : contextOf(tracer)
}))

/**
 * The OpenTelemetry tracer of a worker: connects the bridge from `@stint/otel` to the spans from `@stint/worker`.
 */
import type { TracerOptions } from "@stint/otel/OtelSdk"
import type { OtelTracer } from "@stint/otel/OtelTracer"
import { ActiveSpan, PluginCode, RuntimeOnly, TraceState } from "@stint/worker/Spans"
import { VERSION } from "@stint/worker/Version"
import * as Context from "effect/Context"
import * as Tracer from "effect/Tracer"

/** Functions that the bridge uses to query a worker's spans and fibers. */
export const tracerOptions: TracerOptions = {
  version: VERSION,
  isRuntimeOnly: (annotations) => Context.get(annotations, RuntimeOnly),
  isPluginCode: (fiber) => fiber.getRef(PluginCode),
  traceStateOf: ({ annotations }) => Context.getOrUndefined(annotations, TraceState)
}

/** The context of a traced worker. */
export const contextOf = ({ activeSpan, tracer }: OtelTracer): Context.Context<never> =>
  Context.add(Context.make(Tracer.Tracer, tracer), ActiveSpan, activeSpan)

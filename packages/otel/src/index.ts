/**
 * OpenTelemetry for Stint's Effect programs: a tracer, and exporters that are loaded only when they are configured.
 */
export * as BatchExport from "./BatchExport.ts"
export * as LogExport from "./LogExport.ts"
export * as OtelSdk from "./OtelSdk.ts"
export * as OtelTracer from "./OtelTracer.ts"
export * as OtlpConfig from "./OtlpConfig.ts"
export * as SpanExport from "./SpanExport.ts"

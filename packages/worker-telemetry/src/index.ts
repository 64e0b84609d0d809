/**
 * Traces of Stint jobs by OpenTelemetry.
 */
export * as Telemetry from "./Telemetry.ts"

/**
 * OpenTelemetry traces of Stint jobs.
 */
export * as Telemetry from "./Telemetry.ts"

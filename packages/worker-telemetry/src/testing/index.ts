/**
 * What tests of traced code use.
 */
export * as TelemetryTest from "./TelemetryTest.ts"

/**
 * Support for tests of traced code.
 */
export * as TelemetryTest from "./TelemetryTest.ts"

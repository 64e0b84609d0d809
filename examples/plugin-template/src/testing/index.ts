/**
 * Test support for handlers that count their usage.
 */
export * as LedgerTest from "./LedgerTest.ts"

/**
 * Test support for handlers that count.
 */
export * as LedgerTest from "./LedgerTest.ts"

/**
 * What tests of handlers that count need.
 */
export * as LedgerTest from "./LedgerTest.ts"

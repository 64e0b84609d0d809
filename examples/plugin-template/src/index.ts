/**
 * A worker plugin that records what each job used.
 */
export * as Ledger from "./Ledger.ts"
export * as Usage from "./Usage.ts"

/**
 * A plugin for workers: what each job used.
 */
export * as Ledger from "./Ledger.ts"
export * as Usage from "./Usage.ts"

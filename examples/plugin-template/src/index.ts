/**
 * A plugin for workers: records what each job used.
 */
export * as Ledger from "./Ledger.ts"
export * as Usage from "./Usage.ts"

/**
 * Runs workers as child processes of the platform.
 */
export * as ProcessPool from "./ProcessPool.ts"

/**
 * The input of jobs, checked by rules.
 */
export * as Validator from "./Validator.ts"

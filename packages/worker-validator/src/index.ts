/**
 * Validates the input of jobs against rules.
 */
export * as Validator from "./Validator.ts"

/**
 * Reports the progress of a running job to callers that read its status.
 */
export * as Progress from "./Progress.ts"

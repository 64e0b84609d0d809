/**
 * Progress of a job while it runs, for those who ask for its status.
 */
export * as Progress from "./Progress.ts"

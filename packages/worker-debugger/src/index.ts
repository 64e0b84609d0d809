/**
 * What a job's time went into: timers for lines, functions and effects, in the job's output and as spans.
 */
export * as Debugger from "./Debugger.ts"
export { FunctionTimer } from "./FunctionTimer.ts"
export { LineTimer } from "./LineTimer.ts"

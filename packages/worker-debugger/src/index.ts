/**
 * Timers for lines, functions and effects of a job, reported in its output and as spans.
 */
export * as Debugger from "./Debugger.ts"
export { FunctionTimer } from "./FunctionTimer.ts"
export { LineTimer } from "./LineTimer.ts"

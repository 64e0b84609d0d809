/**
 * Timers for handler functions (docs/spec/debugger.md#timers). With `--rp_debugger`, a deployed worker adds their timings to
 * `output.rp_debugger`. When traces are exported, the timings are also spans of the job's trace.
 */
export { FunctionTimer } from "@stint/worker-debugger/FunctionTimer"
export { LineTimer } from "@stint/worker-debugger/LineTimer"

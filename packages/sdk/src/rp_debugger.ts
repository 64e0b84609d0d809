/**
 * Timers for handler functions (docs/spec/debugger.md#timers). With `--rp_debugger`, a deployed worker adds their timings to
 * `output.rp_debugger`. They are also spans of the job's trace, where traces are exported.
 */
export { FunctionTimer } from "@stint/worker-debugger/FunctionTimer"
export { LineTimer } from "@stint/worker-debugger/LineTimer"

/**
 * Timers for plain handlers (docs/spec/debugger.md#timers): what they measure is in `output.rp_debugger` of a worker that runs with `--rp_debugger`,
 * and in the job's trace wherever there is one.
 */
export { FunctionTimer } from "@stint/worker-debugger/FunctionTimer"
export { LineTimer } from "@stint/worker-debugger/LineTimer"

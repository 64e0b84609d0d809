/**
 * Ends the process at once.
 *
 * `process.exit` runs the listeners of `exit` first, and libraries register such listeners: one that calls `process.exit` changes the exit code,
 * and one that blocks keeps the process alive. The platform would then count an unfit worker as a healthy one, or keep it.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as StdioFlush from "./StdioFlush.ts"

/** How long the exit waits for the last lines of the log. Milliseconds. */
const FLUSH_TIMEOUT = 1_000

/**
 * Node's own exit, without listeners. Read when the module is loaded, because some packages replace the function to run their own listeners.
 * Node does not document it, so its type is unknown.
 */
const reallyExit: unknown = Reflect.get(process, "reallyExit")

const exitNow = (code: number): never => {
  if (typeof reallyExit === "function") Reflect.apply(reallyExit, process, [code])
  // Other runtimes lack the function.
  process.exit(code)
}

/**
 * Ends the process at once, without finalizers and without Node's `exit` listeners. Waits at most 1 s until the log is written. Replace it
 * in tests and in processes that run more than one worker.
 */
export const ProcessExit = Context.Reference<(code: number) => Effect.Effect<never>>("@stint/worker/ProcessExit", {
  defaultValue: () => (code) => Effect.andThen(StdioFlush.flush(FLUSH_TIMEOUT), Effect.sync(() => exitNow(code)))
})

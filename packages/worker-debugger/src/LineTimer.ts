/**
 * Times some lines of a handler function (docs/spec/debugger.md#timers).
 */
import * as RunningJob from "@stint/worker/RunningJob"
import * as Exit from "effect/Exit"
import * as Timing from "./Timing.ts"

/**
 * Runs from where it is made until the end of its block, or until `stop`. Outside of a job, and where there is neither a debugger nor
 * a tracer, it does nothing.
 *
 * Lines of one function nest by their order. Where pieces of one job run at the same time, give each a function of its own and a
 * `FunctionTimer`, or they seem to be parts of each other.
 *
 * @example
 * ```ts
 * async function handler(job) {
 *   using _ = new LineTimer("resize")
 *   return await resize(job.input)
 * }
 * ```
 */
export class LineTimer implements Disposable, AsyncDisposable {
  readonly #timing: Timing.Timing | undefined

  constructor(name: string) {
    const running = RunningJob.current()
    this.#timing = running === undefined ? undefined : Timing.beginLine(running.context, name)
  }

  /** Ends the timing. Only the first call counts. */
  stop(): void {
    this.#timing?.end(Exit.void)
  }

  /** What `using` calls. */
  [Symbol.dispose](): void {
    this.stop()
  }

  /** What `await using` calls. */
  [Symbol.asyncDispose](): Promise<void> {
    this.stop()
    return Promise.resolve()
  }
}

/**
 * Times lines of a handler function (docs/spec/debugger.md#timers).
 */
import * as RunningJob from "@stint/worker/RunningJob"
import * as Exit from "effect/Exit"
import * as Timing from "./Timing.ts"

/**
 * Times from its construction until the end of its block, or until `stop`. Outside a job, and without a debugger or tracer, it does nothing.
 *
 * The timers of one function nest in the order of their construction. For concurrent parts of a job, use a function with a `FunctionTimer`
 * for each part; line timers would report them as nested in each other.
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

  /** Ends the timing. Later calls have no effect. */
  stop(): void {
    this.#timing?.end(Exit.void)
  }

  /** Called by `using`. */
  [Symbol.dispose](): void {
    this.stop()
  }

  /** Called by `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    this.stop()
    return Promise.resolve()
  }
}

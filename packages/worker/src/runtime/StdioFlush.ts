/**
 * What was printed and is still in this process: Node keeps what the reader of a pipe has no room for.
 *
 * ```
 *   print print print --> [ held here ] --> the pipe --> the platform
 * ```
 *
 * A job's lines leave before its result does, so that whoever reads of its end has read its log; and a process that ended with lines held
 * would take them along. Both wait only where there is something to wait for, and not for long: a reader may have stopped reading.
 */
import * as Effect from "effect/Effect"

/**
 * How long a result waits for its job's lines. Milliseconds. A handler that prints faster than its lines are read is slowed down by it, as
 * one in a language whose printing waits would be; longer keeps more of a flood together.
 */
export const RESULT_FLUSH_TIMEOUT = 10_000

/** How long the end of the process waits for its last lines. Milliseconds: some megabytes, for a busy reader. */
export const EXIT_FLUSH_TIMEOUT = 20_000

/** Whether a stream holds something that somebody may still read. */
const hasPendingBytes = (stream: NodeJS.WriteStream): boolean => stream.writableLength > 0 && !stream.destroyed

/** Whether something is held. */
export const hasPending = (): boolean => hasPendingBytes(process.stdout) || hasPendingBytes(process.stderr)

/** Waits until what is held by now has left, but not longer than the limit. */
export const flush = (limitMillis: number): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const waiting = [process.stdout, process.stderr].filter(hasPendingBytes)
    let left = waiting.length
    const done = () => {
      clearTimeout(timer)
      resume(Effect.void)
    }
    const timer = setTimeout(done, limitMillis)
    if (left === 0) return done()
    for (const stream of waiting) {
      stream.write("", () => {
        left -= 1
        if (left === 0) done()
      })
    }
    return Effect.sync(() => clearTimeout(timer))
  })

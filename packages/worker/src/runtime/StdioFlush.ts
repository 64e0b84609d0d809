/**
 * Flushes standard output and standard error, because Node buffers output when the pipe is full.
 *
 * ```
 *   print print print --> [ buffer in this process ] --> pipe --> platform
 * ```
 *
 * The worker flushes before it delivers a result, so that the platform has the job's log when the job ends, and before the process exits,
 * which would lose buffered lines. Each flush has a timeout, because the reader may have stopped reading.
 */
import * as Effect from "effect/Effect"

/**
 * How long a result waits for the flush. Milliseconds. The wait slows down a handler that prints faster than the platform reads. With a
 * longer timeout, more of a large log reaches the platform before the result.
 */
export const RESULT_FLUSH_TIMEOUT = 10_000

/** How long the exit of the process waits for the flush. Milliseconds. Enough for a few megabytes with a busy reader. */
export const EXIT_FLUSH_TIMEOUT = 20_000

/** Whether a stream has buffered bytes that can still be read. */
const hasPendingBytes = (stream: NodeJS.WriteStream): boolean => stream.writableLength > 0 && !stream.destroyed

/** Whether there are buffered bytes. */
export const hasPending = (): boolean => hasPendingBytes(process.stdout) || hasPendingBytes(process.stderr)

/** Waits until the currently buffered bytes are written or the limit expires. */
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

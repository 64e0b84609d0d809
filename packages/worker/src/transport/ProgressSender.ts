/**
 * Sends the progress of one job, on the heartbeat thread or on the main thread (docs/spec/progress.md#order).
 *
 * ```
 *   update --> pending (only the newest) --interval--> in flight --2xx-----------> delivered
 *                 ^                                       |  \----404, 409, 410--> stopped: this worker no longer holds the job
 *                 |                                       |
 *                 +-- no newer value, fewer than 4 tries -+--- other 4xx, 4th try --> the value is dropped
 *
 *   end --> pending is dropped; the value in flight is awaited
 * ```
 *
 * At most one value is in flight. A job's values therefore stay in order, and the result could overtake only the value in flight.
 *
 * The heartbeat thread evaluates the source text of {@link makeProgressSender}, so the rules of {@link file://../runtime/heartbeatThread.ts}
 * apply: no imports, no outer variables, and functions only as methods or as arguments.
 */

/** A failed request. */
export interface ProgressFailure {
  /** The status of the response; undefined when there was none. */
  readonly status: number | undefined
  readonly message: string
}

/** The functions that a sender needs from its thread. */
export interface ProgressHost {
  /** Milliseconds since any fixed time. */
  readonly now: () => number
  /** A number in [0, 1). */
  readonly random: () => number
  /** Calls back after a time in milliseconds. Returns a function that cancels the call. */
  readonly after: (millis: number, callback: () => void) => () => void
  /** Sends a value. Calls back once, with the failure if there was one. Returns a function that aborts the request without a callback. */
  readonly send: (text: string, ended: (failure?: ProgressFailure) => void) => () => void
  readonly log: (level: "DEBUG" | "WARN", message: string) => void
}

/** The progress of one job. */
export interface ProgressSender {
  /** Sends a value (JSON text) after the interval, unless a newer value replaces it. Returns immediately. */
  readonly update: (text: string) => void
  /** Whether no value is pending or in flight. */
  readonly isIdle: () => boolean
  /** Stops sending, and calls back when no value is in flight. */
  readonly end: (ended: () => void) => void
  /** Stops sending, and aborts the value in flight. */
  readonly abort: () => void
}

interface SenderState {
  /** The maximum number of attempts for one value. A newer value replaces a failed one. */
  readonly maxAttempts: number
  /** The bounds of the backoff, which doubles. Newer values do not shorten it, because an overloaded platform needs fewer requests. */
  readonly firstBackoff: number
  readonly maxBackoff: number
  pending: { readonly text: string; readonly tries: number } | undefined
  /** The number of requests so far. */
  requests: number
  inFlight: boolean
  stopped: boolean
  warned: boolean
  /** Consecutive failures. */
  failures: number
  /** The earliest time of the next request. */
  notBefore: number
  cancelTimer: (() => void) | undefined
  abortRequest: (() => void) | undefined
  onEnded: (() => void) | undefined
  update(text: string): void
  advance(): void
  decisionOf(status: number | undefined): "retry" | "reject" | "stop"
  failed(text: string, tries: number, failure: ProgressFailure): void
  stop(): void
  end(ended: () => void): void
  abort(): void
}

/** Makes the sender for a job. `interval` is the minimum time between two values in milliseconds. */
export const makeProgressSender = (host: ProgressHost, interval: number): ProgressSender => {
  const state: SenderState = {
    maxAttempts: 4,
    firstBackoff: 100,
    maxBackoff: 5_000,
    pending: undefined,
    requests: 0,
    inFlight: false,
    stopped: false,
    warned: false,
    failures: 0,
    notBefore: 0,
    cancelTimer: undefined,
    abortRequest: undefined,
    onEnded: undefined,

    update(text) {
      if (this.stopped) return
      this.pending = { text, tries: 1 }
      this.advance()
    },

    advance() {
      if (this.inFlight || this.cancelTimer !== undefined || this.pending === undefined) return
      const wait = this.notBefore - host.now()
      if (wait > 0) {
        this.cancelTimer = host.after(wait, () => {
          this.cancelTimer = undefined
          this.advance()
        })
        return
      }
      const { text, tries } = this.pending
      this.pending = undefined
      this.inFlight = true
      this.notBefore = host.now() + interval
      const request = ++this.requests
      const abort = host.send(text, (failure) => {
        this.inFlight = false
        this.abortRequest = undefined
        if (failure === undefined) this.failures = 0
        else this.failed(text, tries, failure)
        this.onEnded?.()
        this.advance()
      })
      // The callback may already have sent the next value.
      if (this.requests === request) this.abortRequest = abort
    },

    decisionOf(status) {
      if (status === 404 || status === 409 || status === 410) return "stop"
      return status === undefined || status === 408 || status === 425 || status === 429 || status >= 500 ? "retry" : "reject"
    },

    failed(text, tries, { message, status }) {
      const decision = this.decisionOf(status)
      if (decision === "stop") {
        this.stop()
        host.log("DEBUG", `The worker sends no more progress for this job: ${message}.`)
        return
      }
      const longest = Math.min(this.maxBackoff, this.firstBackoff * 2 ** this.failures)
      this.failures++
      this.notBefore = Math.max(this.notBefore, host.now() + Math.round(longest * (0.5 + host.random() / 2)))
      if (!this.warned) {
        this.warned = true
        host.log(
          "WARN",
          decision === "retry"
            ? `Progress could not be sent: ${message}. Retrying with the latest value; the job itself is not affected.`
            : `The platform rejected the progress: ${message}. The value is dropped; the job itself is not affected.`
        )
      }
      if (decision === "retry" && tries < this.maxAttempts && this.pending === undefined && !this.stopped) {
        this.pending = { text, tries: tries + 1 }
      }
    },

    stop() {
      this.stopped = true
      this.pending = undefined
      this.cancelTimer?.()
      this.cancelTimer = undefined
    },

    end(ended) {
      this.stop()
      if (!this.inFlight) return ended()
      this.onEnded = ended
    },

    abort() {
      this.stop()
      this.abortRequest?.()
      this.abortRequest = undefined
      this.inFlight = false
    }
  }
  return {
    update: (text) => state.update(text),
    isIdle: () => !state.inFlight && state.pending === undefined,
    end: (ended) => state.end(ended),
    abort: () => state.abort()
  }
}

/** The function above, for the thread that evaluates its source text. */
export type MakeProgressSender = typeof makeProgressSender

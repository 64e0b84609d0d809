/**
 * How a trace goes from a caller to the worker that runs its job: the two headers of W3C Trace Context, kept with the job.
 *
 * ```
 *   traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
 *                |  trace id                         span id          flags: bit 0, the trace is recorded
 *                version
 *   tracestate:  what the tracing systems on the way noted for themselves; nobody else reads it
 * ```
 *
 * A header that is not as the standard says is as if it were not there: a caller's broken tracing never costs it the job.
 */

/** The caller's span, as its headers had it: both well-formed. */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

/** What a `traceparent` says. */
export interface TraceParent {
  /** 32 hexadecimal digits in lower case, not all zero. */
  readonly traceId: string
  /** 16 hexadecimal digits in lower case, not all zero. */
  readonly spanId: string
  /** Whether the caller records this trace; who joins it does as the caller does. */
  readonly sampled: boolean
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** The longest `traceparent` that is looked at: room for what later versions of the standard may append. Characters. */
const LONGEST_TRACEPARENT = 256

/** The shortest limit that the standard allows to whoever hands a `tracestate` on whole. Characters. */
const LONGEST_TRACESTATE = 512

/** What a `traceparent` says; undefined where it is not well-formed. */
export const parseTraceparent = (traceparent: string): TraceParent | undefined => {
  if (traceparent.length > LONGEST_TRACEPARENT) return undefined
  const [, version, traceId = "", spanId = "", flags = "", appended] = TRACEPARENT.exec(traceparent) ?? []
  // Version ff is no version, and 00 has nothing after its flags.
  if (version === undefined || version === "ff" || (version === "00" && appended !== undefined)) return undefined
  return /^0+$/.test(traceId) || /^0+$/.test(spanId)
    ? undefined
    : { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** `key=value`, with commas between, all printable. */
const TRACESTATE = /^[\x20-\x7e]*=[\x20-\x7e]*$/

/**
 * The caller's span out of the headers of its request; undefined where it sent none, or none that is well-formed. A `tracestate` that is
 * too long or not printable is left out.
 */
export const traceContextOf = (headers: { readonly [name: string]: string | undefined }): TraceContext | undefined => {
  const traceparent = headers["traceparent"]
  if (traceparent === undefined || parseTraceparent(traceparent) === undefined) return undefined
  const tracestate = headers["tracestate"]
  return tracestate === undefined || tracestate.length > LONGEST_TRACESTATE || !TRACESTATE.test(tracestate)
    ? { traceparent }
    : { traceparent, tracestate }
}

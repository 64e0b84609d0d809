/**
 * Carries a trace from the caller to the worker of its job: the two headers of W3C Trace Context, stored with the job.
 *
 * ```
 *   traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
 *                |  trace id                         span id          flags: bit 0, the trace is recorded
 *                version
 *   tracestate:  vendor data of the tracing systems, passed on unread
 * ```
 *
 * Invalid headers are ignored, so that broken tracing never causes a submission to fail.
 */

/** The caller's span. Both headers are valid. */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

/** A parsed `traceparent`. */
export interface TraceParent {
  /** 32 hexadecimal digits in lower case, not all zero. */
  readonly traceId: string
  /** 16 hexadecimal digits in lower case, not all zero. */
  readonly spanId: string
  /** Whether the caller records this trace. Spans that join the trace are recorded only if this is true. */
  readonly sampled: boolean
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** The maximum length of a `traceparent` in characters, which leaves room for fields that later versions add. */
const MAX_TRACEPARENT = 256

/** The maximum length of a `tracestate` in characters: the length up to which the standard requires it to be passed on. */
const MAX_TRACESTATE = 512

/** Parses a `traceparent`. Returns undefined if it is invalid. */
export const parseTraceparent = (traceparent: string): TraceParent | undefined => {
  if (traceparent.length > MAX_TRACEPARENT) return undefined
  const [, version, traceId = "", spanId = "", flags = "", appended] = TRACEPARENT.exec(traceparent) ?? []
  // Version ff is invalid, and version 00 has nothing after its flags.
  if (version === undefined || version === "ff" || (version === "00" && appended !== undefined)) return undefined
  return /^0+$/.test(traceId) || /^0+$/.test(spanId)
    ? undefined
    : { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** Printable `key=value` pairs, separated by commas. */
const TRACESTATE = /^[\x20-\x7e]*=[\x20-\x7e]*$/

/**
 * Reads the caller's span from request headers. Returns undefined if there is no valid `traceparent`. Drops a `tracestate` that is too long
 * or not printable.
 */
export const traceContextOf = (headers: { readonly [name: string]: string | undefined }): TraceContext | undefined => {
  const traceparent = headers["traceparent"]
  if (traceparent === undefined || parseTraceparent(traceparent) === undefined) return undefined
  const tracestate = headers["tracestate"]
  return tracestate === undefined || tracestate.length > MAX_TRACESTATE || !TRACESTATE.test(tracestate)
    ? { traceparent }
    : { traceparent, tracestate }
}

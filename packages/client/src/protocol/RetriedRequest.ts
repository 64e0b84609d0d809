/**
 * Sends a request, retries it, and decodes the response.
 *
 * ```
 *   send --decoded response--> done
 *    ^ |
 *    | +--> failure --retryable, and within retryFor?--no--> CallError
 *    |                     | yes
 *    +------- pause -------+
 * ```
 */
import {
  CallError,
  type CallInfo,
  explainNoResponse,
  explainResponse,
  type FailureExplanation,
  parseJson,
  unexpected
} from "../CallError.ts"
import type { Settings } from "../ClientSettings.ts"
import {
  type Call,
  type HttpResponse,
  type NoResponse,
  type Opened,
  type OpenStream,
  type Pause,
  type Program,
  type Reply,
  unexpectedReply
} from "./DriverProtocol.ts"
import { mayRetry, pauseAfter, type Repeat } from "./RetryPolicy.ts"

/** A client's settings and the endpoint to call. */
export interface Target extends Settings {
  readonly endpoint: string
}

/** Pauses, and returns the duration of the pause in milliseconds. */
export function* sleep(pause: Pause): Program<number> {
  const reply = yield pause
  if (reply._tag !== "PauseEnded") throw unexpectedReply("Pause", reply)
  return reply.took
}

/** Describes a request, for retries and error messages. */
export interface RequestContext {
  readonly target: Target
  readonly callInfo: Omit<CallInfo, "host" | "endpoint">
  readonly repeat: Repeat
  /** How long failures are retried. Milliseconds. */
  readonly retryFor: number
  /** Appended to the hint when the platform may have processed the request. */
  readonly uncertaintyHint?: string
}

const isUncertain = ({ reason }: FailureExplanation): boolean =>
  reason._tag === "Unreachable" ? reason.sent : reason._tag === "Unavailable" && reason.status !== 503

/** The error for a request that is not retried again. */
export const callError = (
  { callInfo, uncertaintyHint, target }: RequestContext,
  failure: FailureExplanation,
  reply?: Reply
): CallError => {
  const hint = uncertaintyHint !== undefined && isUncertain(failure) ? `${failure.hint} ${uncertaintyHint}` : failure.hint
  return new CallError(
    { ...failure, hint, ...callInfo, host: target.host, endpoint: target.endpoint },
    reply?._tag === "NoResponse" ? { cause: reply.cause } : undefined
  )
}

const explain = (reply: HttpResponse | NoResponse): FailureExplanation =>
  reply._tag === "NoResponse" ? explainNoResponse(reply) : explainUnexpectedResponse(reply)

/** Consecutive failures of one request. */
export class RetryState {
  #failures = 0
  /** The time since the first of these failures. Milliseconds. */
  #failingFor = 0

  /** Starts over after a success. */
  reset(): void {
    this.#failures = 0
    this.#failingFor = 0
  }

  /** Pauses before the next attempt. Throws if the failure is not retryable or `retryFor` would be exceeded. */
  *pauseOrThrow(
    context: RequestContext,
    failure: FailureExplanation,
    reply: Exclude<Reply, { readonly _tag: "PauseEnded" }>
  ): Program<void> {
    if (this.#failures > 0) this.#failingFor += reply.took
    this.#failures += 1
    const pause = pauseAfter(failure.reason, this.#failures)
    if (!mayRetry(failure.reason, context.repeat) || this.#failingFor + pause.atLeast > context.retryFor) {
      throw callError(context, failure, reply)
    }
    this.#failingFor += yield* sleep(pause)
  }
}

/** A request and the decoder of its response. */
export interface RetriedRequest<A> extends RequestContext {
  /** Makes the call for each attempt, because the wait of a long poll may change between attempts. */
  readonly call: () => Call
  readonly decode: (json: unknown) => A | undefined
  /** Builds the result from the header `x-job-id` when the rest of the response is lost or invalid. Submissions only. */
  readonly fromJobId?: (id: string) => A
  /** Called after each failed attempt with its duration. */
  readonly onFailure?: (took: number) => void
}

interface DecodedResponse<A> {
  readonly value: A
  /** Milliseconds. */
  readonly took: number
}

/** Converts an error response, or a 200 response that could not be decoded, to a failure. */
const explainUnexpectedResponse = (response: HttpResponse): FailureExplanation =>
  response.status === 200
    ? unexpected(
      response,
      "The response has status 200, but its body is not the expected JSON.",
      "Check that baseUrl leads to the platform and not to a proxy or a login page, and that client and platform have compatible versions."
    )
    : explainResponse(response)

/** Sends a request with retries, and decodes the response. */
export function* sendWithRetry<A>(request: RetriedRequest<A>): Program<DecodedResponse<A>> {
  const { call, decode, fromJobId, onFailure } = request
  const retryState = new RetryState()
  while (true) {
    const reply = yield call()
    if (reply._tag !== "HttpResponse" && reply._tag !== "NoResponse") throw unexpectedReply("Call", reply)
    if (reply._tag === "HttpResponse" && reply.status === 200) {
      const value = decode(parseJson(reply.text))
      if (value !== undefined) return { value, took: reply.took }
    }
    // The job exists although the response was lost: there is nothing to send again.
    const isLost = reply._tag === "NoResponse" || reply.status === 200 || reply.status >= 500
    if (fromJobId !== undefined && isLost && reply.jobId !== undefined) return { value: fromJobId(reply.jobId), took: reply.took }
    onFailure?.(reply.took)
    yield* retryState.pauseOrThrow(request, explain(reply), reply)
  }
}

/** Opens an event stream, with retries. Returns the response instead when `isFinal` accepts it. */
export function* openStream(
  context: RequestContext,
  retryState: RetryState,
  call: () => OpenStream,
  isFinal: (response: HttpResponse) => boolean
): Program<Opened | HttpResponse> {
  while (true) {
    const reply = yield call()
    if (reply._tag === "Opened") return reply
    if (reply._tag !== "HttpResponse" && reply._tag !== "NoResponse") throw unexpectedReply("OpenStream", reply)
    if (reply._tag === "HttpResponse" && isFinal(reply)) return reply
    yield* retryState.pauseOrThrow(context, explain(reply), reply)
  }
}

/** A call to an operation of the endpoint. `wait`: the duration of a long poll, in milliseconds. */
export const callOf = (
  { endpoint, headers, host, timeout }: Target,
  method: "GET" | "POST",
  path: string,
  options: { readonly wait?: number; readonly body?: string; readonly headers?: Readonly<Record<string, string>> } = {}
): Call => {
  const { body, wait } = options
  return {
    _tag: "Call",
    method,
    url: `${host}/v2/${encodeURIComponent(endpoint)}/${path}${wait === undefined ? "" : `?wait=${Math.round(wait)}`}`,
    headers: {
      ...headers,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...options.headers
    },
    ...(body === undefined ? {} : { body }),
    timeout: timeout + (wait ?? 0)
  }
}

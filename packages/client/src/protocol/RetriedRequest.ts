/**
 * One call, sent as often as it makes sense, and its answer, read.
 *
 * ```
 *   send --answer, understood--> done
 *    ^ |
 *    | +--> explained --may it be done again? patience left?--no--> CallError
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
import {
  type Call,
  type HttpResponse,
  type Opened,
  type OpenStream,
  type Pause,
  type Program,
  type Reply,
  type Settings,
  unexpectedReply
} from "./DriverProtocol.ts"
import { backoff, mayRetry, pauseAfter, type Repeat } from "./RetryPolicy.ts"

/** A client's settings, and the endpoint that is spoken of. */
export interface Target extends Settings {
  readonly endpoint: string
}

/** Does nothing for a while, and tells how long. */
export function* sleep(pause: Pause): Program<number> {
  const reply = yield pause
  if (reply._tag !== "PauseEnded") throw unexpectedReply("Pause", reply)
  return reply.took
}

/** What is asked, how often, and for how long. */
export interface RequestContext {
  readonly target: Target
  readonly callInfo: Omit<CallInfo, "host" | "endpoint">
  readonly repeat: Repeat
  /** How long it is tried again. Milliseconds. */
  readonly retryFor: number
  /** Added to the hint of a failure that leaves open whether something was done. */
  readonly uncertaintyHint?: string
}

const isUncertain = ({ reason }: FailureExplanation): boolean =>
  reason._tag === "Unreachable" ? reason.sent : reason._tag === "Unavailable" && reason.status !== 503

/** The call failed for good. */
export const failure = (
  { callInfo, uncertaintyHint, target }: RequestContext,
  explained: FailureExplanation,
  reply?: Reply
): CallError => {
  const hint = uncertaintyHint !== undefined && isUncertain(explained) ? `${explained.hint} ${uncertaintyHint}` : explained.hint
  return new CallError(
    { ...explained, hint, ...callInfo, host: target.host, endpoint: target.endpoint },
    reply?._tag === "NoResponse" ? { cause: reply.cause } : undefined
  )
}

/** Failures in a row. */
export class RetryState {
  #failures = 0
  /** Since the first failure. Milliseconds. */
  #failing = 0

  /** Something went well. */
  over(): void {
    this.#failures = 0
    this.#failing = 0
  }

  /** Something failed after `took` milliseconds: pauses, or throws where there is no point in going on. */
  *after(
    attempt: RequestContext,
    explained: FailureExplanation,
    reply: Exclude<Reply, { readonly _tag: "PauseEnded" }>
  ): Program<void> {
    if (this.#failures > 0) this.#failing += reply.took
    this.#failures += 1
    const pause = pauseAfter(explained.reason, this.#failures)
    if (!mayRetry(explained.reason, attempt.repeat) || this.#failing + pause.atLeast > attempt.retryFor) {
      throw failure(attempt, explained, reply)
    }
    this.#failing += yield* sleep(pause)
  }
}

/** A call, and how its answer is read. */
export interface RetriedRequest<A> extends RequestContext {
  /** The call; made anew for every try, because a wait may learn to be shorter. */
  readonly call: () => Call
  readonly read: (json: unknown) => A | undefined
  /** What the header `x-job-id` tells of a submission whose answer was lost, or cannot be read. */
  readonly byId?: (id: string) => A
  /** Hears of every try that failed, and how long it took. */
  readonly onFailure?: (took: number) => void
}

/** An answer that was got and understood. */
interface DecodedResponse<A> {
  readonly value: A
  /** Milliseconds. */
  readonly took: number
}

/** An answer that is no success, or that is none that a platform gives. */
export const explainUnexpectedResponse = (answer: HttpResponse): FailureExplanation =>
  answer.status === 200
    ? unexpected(
      answer,
      "The answer was 200, but not what a platform says.",
      "Something else answers at this address (a proxy, a login page), or the platform is of another version."
    )
    : explainResponse(answer)

/** Sends a call, as often as it makes sense, and reads the answer. */
export function* sendWithRetry<A>(one: RetriedRequest<A>): Program<DecodedResponse<A>> {
  const { byId, call, onFailure, read } = one
  const retryState = new RetryState()
  while (true) {
    const reply = yield call()
    if (reply._tag !== "HttpResponse" && reply._tag !== "NoResponse") throw unexpectedReply("Call", reply)
    if (reply._tag === "HttpResponse" && reply.status === 200) {
      const value = read(parseJson(reply.text))
      if (value !== undefined) return { value, took: reply.took }
    }
    // The job is there, whatever became of the answer: nothing has to be sent again.
    const isLost = reply._tag === "NoResponse" || reply.status === 200 || reply.status >= 500
    if (byId !== undefined && isLost && reply.jobId !== undefined) return { value: byId(reply.jobId), took: reply.took }
    onFailure?.(reply.took)
    yield* retryState.after(one, reply._tag === "NoResponse" ? explainNoResponse(reply) : explainUnexpectedResponse(reply), reply)
  }
}

/** Opens a stream of events. Gives the answer instead where it is none, unless it is a failure that may pass. */
export function* openStream(
  attempt: RequestContext,
  retryState: RetryState,
  call: () => OpenStream,
  isOther: (answer: HttpResponse) => boolean
): Program<Opened | HttpResponse> {
  while (true) {
    const reply = yield call()
    if (reply._tag === "Opened") return reply
    if (reply._tag !== "HttpResponse" && reply._tag !== "NoResponse") throw unexpectedReply("OpenStream", reply)
    if (reply._tag === "HttpResponse" && isOther(reply)) return reply
    yield* retryState.after(
      attempt,
      reply._tag === "NoResponse" ? explainNoResponse(reply) : explainUnexpectedResponse(reply),
      reply
    )
  }
}

/** A call to an operation of the endpoint. */
export const callOf = (
  { endpoint, headers, host, timeout }: Target,
  method: "GET" | "POST",
  path: string,
  options: { readonly hold?: number; readonly body?: string; readonly headers?: Readonly<Record<string, string>> } = {}
): Call => {
  const { body, hold } = options
  return {
    _tag: "Call",
    method,
    url: `${host}/v2/${encodeURIComponent(endpoint)}/${path}${hold === undefined ? "" : `?wait=${Math.round(hold)}`}`,
    headers: {
      ...headers,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...options.headers
    },
    ...(body === undefined ? {} : { body }),
    timeout: timeout + (hold ?? 0)
  }
}

/** The platform holds no request for less. Milliseconds. */
export const SHORTEST_WAIT = 1_000

/**
 * How long the next request is to be held. Something between here and the platform may hang up earlier than the wait ends; then the next
 * wait is shorter than that, and grows again slowly.
 */
export class LongPollWait {
  millis: number
  readonly #most: number
  /** Answers in a row that came at once although there was something to wait for. */
  #quick = 0

  constructor(most: number) {
    this.#most = most
    this.millis = most
  }

  /** A wait was cut off. */
  onConnectionLost(took: number): void {
    if (took > SHORTEST_WAIT) this.millis = Math.max(SHORTEST_WAIT, Math.min(this.millis, took) * 0.8)
  }

  /** The pause before the next request, if any: a platform that does not hold requests is not asked without end. */
  pauseBeforeNext(took: number, moved: boolean): Pause | undefined {
    this.millis = Math.min(this.#most, this.millis * 1.25)
    this.#quick = moved || took >= Math.min(SHORTEST_WAIT, this.#most) / 2 ? 0 : this.#quick + 1
    return this.#quick === 0 ? undefined : backoff(this.#quick, 2_000)
  }
}

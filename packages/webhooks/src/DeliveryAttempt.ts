/**
 * Sends a signed webhook once and interprets the response.
 *
 * | response | result |
 * |---|---|
 * | 2xx | Delivered |
 * | 410 | Failed: the receiver is permanently gone |
 * | an address that the guard forbids, a URL that cannot be requested | Failed: no connection is made |
 * | a redirect, any other status, a timeout, a lost connection, a name that does not resolve | Retry |
 */
import type { GuardedHttp, Options, Response } from "@stint/http-guard/GuardedHttp"
import { describe, type GuardedHttpError } from "@stint/http-guard/GuardedHttpError"
import { retryAfter } from "@stint/http-guard/RetryAfter"
import type { WebhookDelivery } from "@stint/store/WebhookStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { headersOf } from "./Signature.ts"

/** What to send. */
export interface SignedMessage extends Pick<WebhookDelivery, "id" | "traceparent" | "tracestate" | "url"> {
  readonly event: string
  readonly body: string
}

/** The result of an attempt. */
export interface AttemptResult {
  readonly _tag: "Delivered" | "Retry" | "Failed"
  readonly status: number | null
  /** Null when delivered. */
  readonly error: string | null
  /** The delay that the receiver requests (`Retry-After`). Milliseconds from now. */
  readonly retryAfter: number | undefined
}

const USER_AGENT = "Stint-Webhooks/1"

/**
 * The maximum number of chunks, of up to 64 KiB each, to read from a response. A connection is reused only after its response has been
 * read.
 */
const ANSWER_CHUNKS = 16

/** How long to read a response. If it takes longer, the connection is closed, but the delivery still succeeds. */
const ANSWER_WAIT = "1 second"

const failed = (_tag: "Retry" | "Failed", status: number | null, error: string, retryAfter?: number): AttemptResult => ({
  _tag,
  status,
  error,
  retryAfter
})

const ofResponse = ({ headers, status }: Response, now: number): AttemptResult => {
  if (status >= 200 && status < 300) return { _tag: "Delivered", status, error: null, retryAfter: undefined }
  if (status === 410) return failed("Failed", status, "The receiver answered 410 (Gone), so the platform sends no more requests.")
  return failed("Retry", status, `The receiver answered ${status}.`, retryAfter(headers["retry-after"], now))
}

const ofError = ({ reason }: GuardedHttpError): AttemptResult => {
  switch (reason._tag) {
    case "Forbidden":
      return failed("Failed", null, `${describe(reason)} (STINT_WEBHOOKS_ALLOW).`)
    case "InvalidUrl":
      return failed("Failed", null, `The URL cannot be used: ${describe(reason)}.`)
    case "TooManyRedirects":
      return failed("Retry", null, "The receiver redirects, and webhook redirects are not followed. Use the final address.")
    default:
      return failed("Retry", null, `${describe(reason)}.`)
  }
}

/**
 * Sends a delivery once, signed with each of the secrets. `timeoutMs` covers the whole attempt, from name resolution to the status. Never
 * fails: errors are returned as a result.
 */
export const attemptDelivery = Effect.fn("Webhook.attempt")(function*(
  http: GuardedHttp["Service"],
  { body, event, id, traceparent, tracestate, url }: SignedMessage,
  secrets: ReadonlyArray<string>,
  timeoutMs: number
) {
  const now = yield* Clock.currentTimeMillis
  const options: Options = {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "user-agent": USER_AGENT,
      ...headersOf(secrets, id, Math.floor(now / 1000), body),
      "webhook-event": event,
      // The receiver's work becomes part of the trace of the caller's request.
      ...(traceparent === null ? {} : { traceparent }),
      ...(traceparent === null || tracestate === null ? {} : { tracestate })
    },
    body,
    maxRedirects: 0,
    // A large response is not an error. It is not read to its end.
    maxBytes: Number.MAX_SAFE_INTEGER,
    // The timeout below is shorter, and its error is clearer.
    headersTimeout: 2 * timeoutMs,
    idleTimeout: 2 * timeoutMs,
    totalTimeout: 2 * timeoutMs
  }
  return yield* Effect.scoped(
    http.request(url, options).pipe(
      Effect.timeoutOrElse({
        duration: timeoutMs,
        orElse: () => Effect.succeed(failed("Retry", null, `No answer within ${timeoutMs / 1000} s.`))
      }),
      Effect.flatMap((response) =>
        "_tag" in response ?
          Effect.succeed(response) :
          Effect.flatMap(Clock.currentTimeMillis, (now) =>
            Stream.runDrain(Stream.take(response.body, ANSWER_CHUNKS)).pipe(
              Effect.timeoutOption(ANSWER_WAIT),
              Effect.ignore,
              Effect.as(ofResponse(response, now))
            ))
      ),
      Effect.catch((error) => Effect.succeed(ofError(error))),
      // After an uncaught defect, the delivery would be retried forever without counting the attempt.
      Effect.catchDefect((defect) => Effect.succeed(failed("Retry", null, `The request could not be made: ${String(defect)}.`)))
    )
  )
})

/**
 * One attempt: the signed POST, and what its answer means.
 *
 * | answer | means |
 * |---|---|
 * | 2xx | delivered |
 * | 410 | given up: the receiver says that it is gone for good |
 * | an address that the guard refuses, a URL that cannot be requested | given up, no connection was made |
 * | a redirect, any other status, silence, a lost connection, a name without an address | again later |
 */
import type { GuardedHttp, Options, Response } from "@stint/http-guard/GuardedHttp"
import { describe, type GuardedHttpError } from "@stint/http-guard/GuardedHttpError"
import { retryAfter } from "@stint/http-guard/RetryAfter"
import type { WebhookDelivery } from "@stint/store/WebhookStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { headersOf } from "./Signature.ts"

/** How an attempt came out. */
export interface AttemptResult {
  readonly _tag: "Delivered" | "Again" | "Never"
  readonly status: number | null
  /** Null where it was delivered. */
  readonly error: string | null
  /** When the receiver wants to be asked again, in milliseconds from now. */
  readonly retryAfter: number | undefined
}

const USER_AGENT = "Stint-Webhooks/1"

/** What is read of an answer, so that its connection can be used again. Chunks, of 64 KiB at the most. */
const ANSWER_CHUNKS = 16

/** How long the rest of an answer is waited for. Nobody reads it; a slow one costs its connection, not the delivery. */
const ANSWER_WAIT = "1 second"

const failed = (_tag: "Again" | "Never", status: number | null, error: string, retryAfter?: number): AttemptResult => ({
  _tag,
  status,
  error,
  retryAfter
})

const ofResponse = ({ headers, status }: Response, now: number): AttemptResult => {
  if (status >= 200 && status < 300) return { _tag: "Delivered", status, error: null, retryAfter: undefined }
  if (status === 410) return failed("Never", status, "The receiver answered 410: it is gone for good.")
  return failed("Again", status, `The receiver answered ${status}.`, retryAfter(headers["retry-after"], now))
}

const ofError = ({ reason }: GuardedHttpError): AttemptResult => {
  switch (reason._tag) {
    case "Forbidden":
      return failed("Never", null, `${describe(reason)} (STINT_WEBHOOKS_ALLOW).`)
    case "InvalidUrl":
      return failed("Never", null, `The address is of no use: ${describe(reason)}.`)
    case "TooManyRedirects":
      return failed("Again", null, "The receiver redirects, and redirects of webhooks are not followed. Use the final address.")
    default:
      return failed("Again", null, `${describe(reason)}.`)
  }
}

/**
 * Sends a delivery once, signed with each of the secrets. `timeoutMs` is for all of it, from the name to the status. Never fails: what went
 * wrong is the answer.
 */
export const attemptDelivery = Effect.fn("Webhook.attempt")(function*(
  http: GuardedHttp["Service"],
  { body, event, id, traceparent, tracestate, url }: WebhookDelivery,
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
      // The receiver is a part of what the caller has begun.
      ...(traceparent === null ? {} : { traceparent }),
      ...(traceparent === null || tracestate === null ? {} : { tracestate })
    },
    body,
    maxRedirects: 0,
    // A large answer is no failure. It is not read to its end.
    maxBytes: Number.MAX_SAFE_INTEGER,
    // The time-out below comes first and says it better.
    headersTimeout: 2 * timeoutMs,
    idleTimeout: 2 * timeoutMs,
    totalTimeout: 2 * timeoutMs
  }
  return yield* Effect.scoped(
    http.request(url, options).pipe(
      Effect.timeoutOrElse({
        duration: timeoutMs,
        orElse: () => Effect.succeed(failed("Again", null, `No answer within ${timeoutMs / 1000} s.`))
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
      // A mistake of ours must not make a delivery one that is tried for ever without being counted.
      Effect.catchDefect((defect) => Effect.succeed(failed("Again", null, `The request could not be made: ${String(defect)}.`)))
    )
  )
})

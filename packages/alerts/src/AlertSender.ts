/**
 * Sends messages to the operator's receivers, signed like job webhooks (docs/decisions/0010-webhook-signatures.md).
 *
 * ```
 *   message --> one queue for each receiver, in order --> attempt --2xx--> delivered
 *                                                            |--410, a forbidden address--> dropped
 *                                                            `--anything else--> retried after a pause, dropped after the last retry
 * ```
 *
 * Messages are in memory. They are lost when the platform stops. After a restart, an alert that still fires is sent again. When more than
 * {@link MAX_WAITING} messages wait for a receiver, the oldest is dropped.
 */
import type { AlertMessage, AlertReceiver, AlertTest } from "@stint/contract/Alert"
import type { GuardedHttp } from "@stint/http-guard/GuardedHttp"
import { attemptDelivery, type AttemptResult } from "@stint/webhooks/DeliveryAttempt"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

/** Where to send, and how. */
export interface Receivers {
  readonly urls: ReadonlyArray<string>
  readonly secret: Redacted.Redacted
  /** The time limit for one attempt. */
  readonly timeout: Duration.Duration
}

/** The maximum number of messages that wait for one receiver: more than a single check can send, and about a megabyte. */
const MAX_WAITING = 1_000

/** The pauses between attempts: 2 s, doubled each time, at most 5 minutes, each with a jitter of a fifth. */
const PAUSES = Schedule.exponential("2 seconds").pipe(
  Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, Duration.minutes(5)))),
  Schedule.jittered
)

/**
 * With {@link PAUSES}, the attempts take more than half an hour: longer than a receiver's restart, and shorter than the interval at which
 * alerts are repeated.
 */
const RETRIES = 13

/** An attempt that may be repeated. */
class Undelivered extends Schema.TaggedError<Undelivered>()("Undelivered", { problem: Schema.String }) {}

export interface AlertSender {
  /** Sends a message to every receiver, in the background. `id`: the same for every attempt. */
  readonly send: (id: string, message: AlertMessage) => Effect.Effect<void>
  /** Sends a message once to every receiver, and waits for the responses. */
  readonly test: (id: string, message: AlertMessage) => Effect.Effect<AlertTest>
  readonly receivers: Effect.Effect<ReadonlyArray<AlertReceiver>>
}

interface Outgoing {
  readonly id: string
  readonly message: AlertMessage
}

/** Sends while the scope is open. */
export const make = Effect.fnUntraced(function*(
  http: GuardedHttp["Service"],
  { secret, timeout, urls }: Receivers
): Effect.fn.Return<AlertSender, never, Scope.Scope> {
  const timeoutMs = Duration.toMillis(timeout)

  const attempt = (url: string, { id, message }: Outgoing) =>
    attemptDelivery(
      http,
      { id, url, event: message.type, body: JSON.stringify(message), traceparent: null, tracestate: null },
      [Redacted.value(secret)],
      timeoutMs
    )

  const start = Effect.fnUntraced(function*(url: string) {
    const { origin } = new URL(url)
    const waiting = yield* Queue.sliding<Outgoing>(MAX_WAITING)
    let deliveredAt: number | undefined
    let problem: string | undefined

    const record = Effect.fnUntraced(function*({ _tag, error }: AttemptResult) {
      if (_tag === "Delivered") deliveredAt = yield* Clock.currentTimeMillis
      problem = error ?? undefined
    })

    const deliver = (outgoing: Outgoing) =>
      attempt(url, outgoing).pipe(
        Effect.tap(record),
        Effect.flatMap(({ _tag, error }) =>
          _tag === "Retry" ? Effect.fail(new Undelivered({ problem: error ?? "" })) : Effect.succeed(error)
        ),
        Effect.retry({ schedule: PAUSES, times: RETRIES }),
        Effect.catchTag("Undelivered", (error) => Effect.succeed(error.problem)),
        Effect.flatMap((error) =>
          error === null ? Effect.void : Effect.logWarning(
            `The alert "${outgoing.message.fingerprint}" could not be sent to ${origin} and is dropped. ${error} ` +
              "Check STINT_ALERT_URL and the receiver: stint alerts test"
          )
        )
      )
    yield* Queue.take(waiting).pipe(Effect.flatMap(deliver), Effect.forever, Effect.forkScoped)

    const state = Effect.sync((): AlertReceiver => ({
      origin,
      waiting: Queue.sizeUnsafe(waiting),
      ...(deliveredAt === undefined ? {} : { deliveredAt }),
      ...(problem === undefined ? {} : { problem })
    }))
    const test = (outgoing: Outgoing) =>
      Effect.map(Effect.tap(attempt(url, outgoing), record), ({ _tag, error, status }) => ({
        origin,
        delivered: _tag === "Delivered",
        ...(status === null ? {} : { status }),
        ...(error === null ? {} : { problem: error })
      }))
    const send = (outgoing: Outgoing) =>
      Effect.suspend(() =>
        Effect.andThen(
          Queue.sizeUnsafe(waiting) < MAX_WAITING
            ? Effect.void
            : Effect.logWarning(`An alert to ${origin} is dropped, because ${MAX_WAITING} others are waiting.`),
          Queue.offer(waiting, outgoing)
        )
      )
    return { state, test, send }
  })

  const all = yield* Effect.forEach(urls, start)
  return {
    send: (id, message) => Effect.forEach(all, ({ send }) => send({ id, message }), { discard: true }),
    test: (id, message) =>
      Effect.map(
        Effect.forEach(all, ({ test }) => test({ id, message }), { concurrency: "unbounded" }),
        (receivers) => ({ receivers })
      ),
    receivers: Effect.forEach(all, ({ state }) => state)
  }
})

/**
 * The duty that sends the webhooks of the outbox, each at least once, even if processes are killed
 * (R10, docs/spec/figures.md#reliability).
 *
 * ```
 *   a job changes, a timer fires, a slot is released
 *        |
 *        v                          +--- 2xx ------------------------> delivered
 *   claimDue --lease--> HostLimiter +--- 410, a forbidden address ---> failed
 *        ^                 |        +--- anything else --------------> due again after a delay, failed after the last attempt
 *        |               full              (RetrySchedule)
 *        |                 v
 *        +------- due again when its turn has probably come
 * ```
 *
 * A claim leases a delivery to this sender for two timeouts and a margin: one timeout for the wait for one of the host's permits, and one for the
 * request. A sender that shuts down returns its deliveries to the outbox. The deliveries of a killed sender are claimed again when their leases
 * expire. A receiver may therefore get a delivery twice, with the same `webhook-id`.
 *
 * Deliveries are not ordered, so a slow or retried delivery does not delay the next one. The job object in the body has the state that it
 * had at the time of the event.
 */
import { MAX_REASON } from "@stint/contract/PlatformEvent"
import { GuardedHttp } from "@stint/http-guard/GuardedHttp"
import * as RequestUrl from "@stint/http-guard/RequestUrl"
import { JobQueue } from "@stint/queue/JobQueue"
import { PlatformEvents } from "@stint/queue/PlatformEvents"
import * as AlignedSleep from "@stint/store/AlignedSleep"
import { Nodes } from "@stint/store/Nodes"
import * as OutageLog from "@stint/store/OutageLog"
import { BUDGET_THRESHOLD_BYTES, PayloadMemoryBudget } from "@stint/store/PayloadMemoryBudget"
import { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import { WebhookBodies } from "@stint/store/WebhookBodies"
import { WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import { type DeliveryOutcome, type WebhookDelivery, WebhookStore } from "@stint/store/WebhookStore"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import { attemptDelivery } from "./DeliveryAttempt.ts"
import * as HostLimiter from "./HostLimiter.ts"
import * as RetrySchedule from "./RetrySchedule.ts"
import * as WebhookSecrets from "./WebhookSecrets.ts"

/** How to send. */
export interface Options {
  /**
   * The time limit for one attempt. Default: 15 s. A longer limit suits receivers that process a webhook before they respond. A hung
   * receiver occupies its slots for this time, and the deliveries of a killed sender wait twice as long.
   */
  readonly timeout?: Duration.Input
  /**
   * The delays between attempts. There is one more attempt than there are delays. Default: {@link RetrySchedule.RETRY_DELAYS}, ten attempts over
   * a day.
   */
  readonly pauses?: ReadonlyArray<Duration.Input>
  /** The maximum `Retry-After` that is honoured. Default: 6 hours. */
  readonly longestRetryAfter?: Duration.Input
  /**
   * Concurrent requests to one host. Default: 8. A higher number empties the queue of a fast receiver sooner but puts more load on a slow
   * one.
   */
  readonly perHost?: number
  /** The number of deliveries claimed at the same time, for all hosts together. Default: 512. */
  readonly most?: number
  /** How often to check the outbox when there is no notification. Default: 1 s. */
  readonly interval?: Duration.Input
}

/** The maximum number of deliveries in one claim. It is small because a body may have up to 20 MB. */
const CLAIM_LIMIT = 16

/** The maximum number of characters in claimed bodies. While it is exceeded, the sender claims nothing. */
const MAX_CHARACTERS = 64 * 1024 * 1024

/** Time added to the lease for the writes before and after an attempt. Milliseconds. */
const LEASE_MARGIN = 5_000

/** The delay before a delivery whose body could not be read is due again. Milliseconds. */
const BODY_RETRY_DELAY = 5_000

/** How many intervals a node waits that is not the oldest one of its store. */
const OTHER_NODES = 5

/** How many intervals one call waits for a notification. */
const LISTENING = 60

/** The delay after the store has failed. */
const STORE_RETRY_DELAY = "1 second"

/** The origin of the URL: all its paths share one limit. */
const hostOf = (url: string): string => URL.parse(url)?.origin ?? ""

const make = Effect.fnUntraced(function*(options: Options) {
  const store = yield* WebhookStore
  const queue = yield* JobQueue
  const http = yield* GuardedHttp
  const attempts = yield* WebhookAttemptStore
  const secrets = yield* WebhookSecretStore
  const bodies = yield* WebhookBodies
  const memory = yield* PayloadMemoryBudget
  const events = yield* PlatformEvents
  const nodes = Option.getOrUndefined(yield* Effect.serviceOption(Nodes))

  const timeout = Duration.toMillis(options.timeout ?? "15 seconds")
  const plan = RetrySchedule.make(options.pauses ?? RetrySchedule.RETRY_DELAYS, options.longestRetryAfter ?? "6 hours")
  const most = options.most ?? 512
  const interval = Duration.toMillis(options.interval ?? "1 second")
  const lease = 2 * timeout + LEASE_MARGIN + bodies.limitMs
  const hostLimiter = HostLimiter.make(options.perHost ?? 8)
  const isFull = () => hostLimiter.held() >= most || hostLimiter.characters() >= MAX_CHARACTERS

  const sending = yield* FiberSet.make()
  /** Opens when the sender must check again: a slot that a claim needs was released, or a delivery is due earlier than expected. */
  const recheck = yield* Latch.make(false)

  /** Sets the time at which a delivery is due, without an attempt. */
  const postpone = (delivery: WebhookDelivery, now: number, nextAt: number) =>
    store.settle(delivery.endpoint, delivery.id, delivery.attempts, {
      _tag: "Retry",
      at: delivery.settledAt ?? now,
      status: delivery.lastStatus,
      error: delivery.lastError,
      nextAt
    })

  const returnToOutbox = (delivery: WebhookDelivery) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => postpone(delivery, now, now)).pipe(Effect.ignore)

  const outcomeOf = Effect.fnUntraced(
    function*(delivery: WebhookDelivery, answer: Effect.Success<ReturnType<typeof attemptDelivery>>, now: number) {
      const base = { at: now, status: answer.status, error: answer.error }
      if (answer._tag === "Delivered") return { ...base, _tag: "Delivered" } satisfies DeliveryOutcome
      if (answer._tag === "Failed") return { ...base, _tag: "Failed" } satisfies DeliveryOutcome
      const { sinceFinal } = yield* attempts.attemptCounts(delivery.id)
      const pause = RetrySchedule.retryDelay(plan, sinceFinal + 1, answer.retryAfter, yield* Random.next)
      return pause === undefined
        ? { ...base, _tag: "Failed" } satisfies DeliveryOutcome
        : { ...base, _tag: "Retry", nextAt: now + pause } satisfies DeliveryOutcome
    }
  )

  const logFailedDelivery = ({ endpoint, event, id, job, url }: WebhookDelivery, { error, _tag }: DeliveryOutcome) =>
    _tag === "Failed"
      ? Effect.logWarning(
        `The webhook "${event}" of ${event.startsWith("batch.") ? "batch" : "job"} ${job} to ${
          RequestUrl.redactedUrl(url)
        } failed and is not retried. ${error ?? ""} ` +
          `When the receiver works again: stint webhooks resend ${endpoint} ${id}`
      )
      : Effect.void

  /** Publishes the end of a delivery. */
  const publishEnd = ({ endpoint, id, url }: WebhookDelivery, { _tag, error }: DeliveryOutcome) => {
    if (_tag === "Retry" || !events.isOpen()) return
    const delivery = { endpoint, delivery: id, host: hostOf(url) }
    events.publish(
      _tag === "Delivered"
        ? { type: "webhook.delivered", ...delivery }
        : { type: "webhook.failed", ...delivery, reason: (error ?? "").slice(0, MAX_REASON) }
    )
  }

  /**
   * Resolves the body and reserves memory for it until it is sent. Returns undefined if the body cannot be read now; the delivery is then
   * due later.
   */
  const withBody = (delivery: WebhookDelivery) =>
    bodies.resolve(delivery.body).pipe(
      Effect.tap((body) => body.length < BUDGET_THRESHOLD_BYTES ? Effect.void : memory.reserve(body.length)),
      Effect.map((body): WebhookDelivery => ({ ...delivery, body })),
      Effect.catchTag("StoreError", ({ message }) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          Effect.as(
            store.settle(delivery.endpoint, delivery.id, delivery.attempts, {
              _tag: "Retry",
              at: now,
              status: null,
              error: `The body cannot be read now: ${message}.`,
              nextAt: now + BODY_RETRY_DELAY
            }),
            undefined
          )))
    )

  /** Sends a delivery once and records the outcome. */
  const deliver = Effect.fn("WebhookSender.deliver")(function*(stored: WebhookDelivery) {
    const delivery = yield* withBody(stored)
    if (delivery === undefined) {
      recheck.openUnsafe()
      return
    }
    const secret = yield* Effect.provideService(WebhookSecrets.current(delivery.endpoint), WebhookSecretStore, secrets)
    const startedAt = yield* Clock.currentTimeMillis
    const answer = yield* attemptDelivery(http, delivery, WebhookSecrets.validAt(secret, startedAt), timeout)
    const endedAt = yield* Clock.currentTimeMillis
    const outcome = yield* outcomeOf(delivery, answer, endedAt)
    // The store may write both in one commit. If it does not, the outbox is authoritative.
    yield* Effect.all([
      store.settle(delivery.endpoint, delivery.id, delivery.attempts, outcome),
      attempts.add({
        delivery: delivery.id,
        at: startedAt,
        durationMs: endedAt - startedAt,
        status: outcome.status,
        error: outcome.error,
        final: outcome._tag !== "Retry"
      })
    ], { concurrency: "unbounded" })
    if (outcome._tag === "Retry") recheck.openUnsafe()
    publishEnd(delivery, outcome)
    yield* logFailedDelivery(delivery, outcome)
  }, Effect.scoped)

  /** Sends a delivery with one of the host's permits, and always releases its slot. */
  const deliverInSlot = (delivery: WebhookDelivery, slot: HostLimiter.Slot) =>
    deliver(delivery).pipe(
      slot.permits.withPermits(1),
      Effect.onInterrupt(() => returnToOutbox(delivery)),
      // A delivery whose outcome was not stored is claimed again when its lease expires.
      Effect.catchCause((cause) =>
        Cause.hasInterrupts(cause)
          ? Effect.failCause(cause)
          : Effect.logError(
            `The outcome of a webhook for job ${delivery.job} was not stored; the webhook will be sent again.`,
            cause
          )
      ),
      Effect.ensuring(Effect.map(Clock.currentTimeMillis, (now) => {
        const wasFull = isFull()
        slot.release(now)
        if (wasFull) recheck.openUnsafe()
      }))
    )

  const trySend = Effect.fnUntraced(function*(delivery: WebhookDelivery, now: number) {
    const slot = hostLimiter.acquire(hostOf(delivery.url), delivery.body.length, now)
    if (typeof slot === "number") yield* postpone(delivery, now, slot)
    else yield* FiberSet.run(sending, deliverInSlot(delivery, slot))
  })

  /** Claims once. Returns whether there may be more deliveries to claim. */
  const claim = Effect.gen(function*() {
    if (isFull()) return false
    const now = yield* Clock.currentTimeMillis
    const claimed = yield* store.claimDue(now, CLAIM_LIMIT, lease)
    for (const delivery of claimed) yield* trySend(delivery, now)
    return claimed.length > 0
  }).pipe(Effect.uninterruptible)

  /**
   * Sleeps until a delivery is due. Looks at least once in 5/4 of the interval. On several nodes, the others look less often than the oldest one, and
   * still send the deliveries of their own jobs at once.
   */
  const untilDue = Effect.gen(function*() {
    let next: number | null = null
    while (next === null || next > (yield* Clock.currentTimeMillis)) {
      next = isFull() ? null : yield* store.nextDueAt
      const pause = nodes?.isOldest() === false ? OTHER_NODES * interval : interval
      yield* AlignedSleep.sleep(pause, next === null ? undefined : Math.max(1, next - (yield* Clock.currentTimeMillis)))
    }
  })

  const once = Effect.gen(function*() {
    yield* recheck.close
    // Subscribe before the check, so that no notification between the check and the wait is lost.
    const notification = yield* Effect.forkChild(queue.awaitDeliveries(LISTENING * interval), { startImmediately: true })
    if (!(yield* claim)) yield* Effect.raceAllFirst([Fiber.join(notification), recheck.await, untilDue])
    yield* Fiber.interrupt(notification)
  }).pipe(Effect.scoped)

  const outage = OutageLog.make({
    onFailure: (problem) => Effect.logError(`Webhooks cannot be sent: ${problem}. None is lost; retrying every second.`),
    onRecovery: Effect.logInfo("Webhooks are sent again.")
  })
  yield* outage.watch(once).pipe(
    Effect.flatMap((succeeded) => succeeded ? Effect.void : Effect.sleep(STORE_RETRY_DELAY)),
    Effect.forever,
    Effect.forkScoped
  )
})

/** The duty as a layer. It sends while the layer's scope is open, and returns its deliveries to the outbox when the scope closes. */
export const layer = (
  options: Options = {}
): Layer.Layer<never, never, WebhookStore | WebhookAttemptStore | WebhookSecretStore | JobQueue | GuardedHttp> =>
  Layer.effectDiscard(make(options))

/**
 * The duty that empties the webhook outbox: at least once for every delivery that was written, whatever dies on the way
 * (R10, docs/spec/figures.md#reliability).
 *
 * ```
 *   a job changed, a timer, a place got free
 *        |
 *        v                          +--- 2xx ------------------------> delivered
 *   claimDue --lease--> Receivers --+--- 410, a forbidden address ---> failed
 *        ^                 |        +--- anything else --------------> due again after a pause, failed after the last
 *        |               full              (RetryPlan)
 *        |                 v
 *        +------- due again at the host's pace
 * ```
 *
 * A delivery that was claimed is this sender's for `lease`: two time-outs and a margin, one for its turn at the host, one for the request. A
 * sender that is closed hands back what it was at; one that is killed cannot, and its deliveries are claimed again when their lease is over.
 * A receiver may therefore see a delivery twice, and knows it by `webhook-id`.
 *
 * Deliveries are not sent in order: a slow or retried one does not hold up the next. The job object says how things stood.
 */
import { GuardedHttp } from "@stint/http-guard/GuardedHttp"
import * as RequestUrl from "@stint/http-guard/RequestUrl"
import { JobQueue } from "@stint/queue/JobQueue"
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
import * as Random from "effect/Random"
import { attemptDelivery } from "./DeliveryAttempt.ts"
import * as HostLimiter from "./HostLimiter.ts"
import * as RetrySchedule from "./RetrySchedule.ts"
import * as WebhookSecrets from "./WebhookSecrets.ts"

/** How to send. */
export interface Options {
  /**
   * How long a receiver may take to answer. Default: 15 s. Longer suits receivers that work before they answer; it is also how long a hung
   * one holds its places, and half of how long the deliveries of a killed sender wait.
   */
  readonly timeout?: Duration.Input
  /** The pauses between attempts; one attempt more than there are pauses. Default: {@link RetryPlan.PAUSES}, ten attempts over a day. */
  readonly pauses?: ReadonlyArray<Duration.Input>
  /** The longest `Retry-After` that is heeded. Default: 6 hours. */
  readonly longestRetryAfter?: Duration.Input
  /** Requests to one host at once. Default: 8. More empties the queue of a fast receiver sooner and presses a slow one harder. */
  readonly perHost?: number
  /** Deliveries in hand at once, for all hosts. Default: 512. */
  readonly most?: number
  /** How often to look when nothing says that there is something. Default: 1 s. */
  readonly interval?: Duration.Input
}

/** What one claim takes: few enough that 20 MB bodies do no harm. */
const CLAIM_LIMIT = 16

/** What may be in hand of bodies; beyond, nothing is claimed until some are sent. Characters. */
const MAX_CHARACTERS = 64 * 1024 * 1024

/** Beyond two time-outs: for the writes around them. Milliseconds. */
const LEASE_MARGIN = 5_000

/** How long after its body could not be had a delivery is tried again. Milliseconds. */
const BODY_PAUSE = 5_000

/** How long after a failure of the store to try again. */
const STORE_RETRY_DELAY = "1 second"

/** Of one host: where the requests go, whatever the path. */
const hostOf = (url: string): string => URL.parse(url)?.origin ?? ""

const make = Effect.fnUntraced(function*(options: Options) {
  const store = yield* WebhookStore
  const queue = yield* JobQueue
  const http = yield* GuardedHttp
  const attempts = yield* WebhookAttemptStore
  const secrets = yield* WebhookSecretStore
  const bodies = yield* WebhookBodies
  const memory = yield* PayloadMemoryBudget

  const timeout = Duration.toMillis(options.timeout ?? "15 seconds")
  const plan = RetrySchedule.make(options.pauses ?? RetrySchedule.PAUSES, options.longestRetryAfter ?? "6 hours")
  const most = options.most ?? 512
  const interval = Duration.toMillis(options.interval ?? "1 second")
  const lease = 2 * timeout + LEASE_MARGIN + bodies.limitMs
  const hostLimiter = HostLimiter.make(options.perHost ?? 8)
  const isFull = () => hostLimiter.held() >= most || hostLimiter.characters() >= MAX_CHARACTERS

  const sending = yield* FiberSet.make()
  /** Open when it is time to look again: a place got free that a claim had waited for, or something is due earlier than was known. */
  const again = yield* Latch.make(false)

  /** Due again at a time, without having been tried. */
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
      if (answer._tag === "Never") return { ...base, _tag: "Failed" } satisfies DeliveryOutcome
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
        } is given up. ${error ?? ""} ` +
          `When the receiver works again: stint webhooks resend ${endpoint} ${id}`
      )
      : Effect.void

  /** The delivery with its whole body, which is counted until it is sent; undefined, and due again in a while, where that cannot be had. */
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
              error: `The body cannot be had now: ${message}.`,
              nextAt: now + BODY_PAUSE
            }),
            undefined
          )))
    )

  /** Sends a delivery once and records the outcome. */
  const deliver = Effect.fn("WebhookSender.deliver")(function*(kept: WebhookDelivery) {
    const delivery = yield* withBody(kept)
    if (delivery === undefined) {
      again.openUnsafe()
      return
    }
    const secret = yield* Effect.provideService(WebhookSecrets.current(delivery.endpoint), WebhookSecretStore, secrets)
    const begun = yield* Clock.currentTimeMillis
    const answer = yield* attemptDelivery(http, delivery, WebhookSecrets.validAt(secret, begun), timeout)
    const ended = yield* Clock.currentTimeMillis
    const outcome = yield* outcomeOf(delivery, answer, ended)
    // Both are in one commit where the store groups writes; the outbox's is the one that counts.
    yield* Effect.all([
      store.settle(delivery.endpoint, delivery.id, delivery.attempts, outcome),
      attempts.add({
        delivery: delivery.id,
        at: begun,
        durationMs: ended - begun,
        status: outcome.status,
        error: outcome.error,
        final: outcome._tag !== "Retry"
      })
    ], { concurrency: "unbounded" })
    if (outcome._tag === "Retry") again.openUnsafe()
    yield* logFailedDelivery(delivery, outcome)
  }, Effect.scoped)

  /** Takes a delivery through its turn at the host. Whatever happens, its place is given back. */
  const deliverInSlot = (delivery: WebhookDelivery, slot: HostLimiter.Slot) =>
    deliver(delivery).pipe(
      slot.permits.withPermits(1),
      Effect.onInterrupt(() => returnToOutbox(delivery)),
      // What the store did not keep is claimed again when its lease is over.
      Effect.catchCause((cause) =>
        Cause.hasInterrupts(cause)
          ? Effect.failCause(cause)
          : Effect.logError(`A webhook of job ${delivery.job} was not settled; it will be sent again.`, cause)
      ),
      Effect.ensuring(Effect.map(Clock.currentTimeMillis, (now) => {
        const wasFull = isFull()
        slot.release(now)
        if (wasFull) again.openUnsafe()
      }))
    )

  const place = Effect.fnUntraced(function*(delivery: WebhookDelivery, now: number) {
    const found = hostLimiter.acquire(hostOf(delivery.url), delivery.body.length, now)
    if (typeof found === "number") yield* postpone(delivery, now, found)
    else yield* FiberSet.run(sending, deliverInSlot(delivery, found))
  })

  /** Claims once. True when there may be more. */
  const claim = Effect.gen(function*() {
    if (isFull()) return false
    const now = yield* Clock.currentTimeMillis
    const claimed = yield* store.claimDue(now, CLAIM_LIMIT, lease)
    for (const delivery of claimed) yield* place(delivery, now)
    return claimed.length > 0
  }).pipe(Effect.uninterruptible)

  const untilDue = Effect.gen(function*() {
    if (isFull()) return interval
    const [now, next] = yield* Effect.all([Clock.currentTimeMillis, store.nextDueAt])
    return next === null ? interval : Math.min(interval, Math.max(1, next - now))
  })

  const once = Effect.gen(function*() {
    yield* again.close
    // Listens before it looks: what is written between the look and the wait is not missed.
    const bell = yield* Effect.forkChild(queue.awaitDeliveries(interval), { startImmediately: true })
    if (!(yield* claim)) {
      const due = yield* untilDue
      yield* Effect.raceAllFirst([Fiber.join(bell), again.await, Effect.sleep(due)])
    }
    yield* Fiber.interrupt(bell)
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

/** The duty as a layer: it sends while the layer's scope is open, and hands back what it was at when it closes. */
export const layer = (
  options: Options = {}
): Layer.Layer<never, never, WebhookStore | WebhookAttemptStore | WebhookSecretStore | JobQueue | GuardedHttp> =>
  Layer.effectDiscard(make(options))

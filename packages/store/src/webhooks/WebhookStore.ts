/**
 * The webhook outbox, which stores deliveries until they are sent.
 *
 * ```
 *   a job changes ---- same commit ----> [ pending ] --claimDue--> leased to a sender for `leaseMs`
 *                                          ^  |  ^                       |
 *                                          |  |  +-- Retry, lease ends --+
 *                                   resend |  |                          | settle
 *                                          |  +---- [ delivered ] <------+
 *                                          +------- [ failed ] <---------+
 * ```
 *
 * `JobStore` and `BatchStore` write a delivery in the commit of the change that causes it. A change that was not committed is never
 * delivered; a committed change is delivered at least once (R10, docs/spec/figures.md#reliability). When a sender dies, other senders claim
 * its deliveries once the lease has expired.
 *
 * The body is a snapshot of the job object at the time of the change, so a delivery does not depend on the job. Ended deliveries stay until
 * `removeBefore` removes them; the webhooks package calls it some days after their end.
 */
import { BatchWebhookEvent } from "@stint/contract/Batch"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { WebhookEvent } from "@stint/contract/Job"
import { JsonText } from "@stint/contract/Json"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ListCursor } from "../ListCursor.ts"
import type { StoreError } from "../StoreError.ts"
import { slotOfId, uuidV7At } from "../UuidV7.ts"

/** The state of a delivery. */
export const DeliveryState = Schema.Literals(["pending", "delivered", "failed"])
export type DeliveryState = typeof DeliveryState.Type

/** A delivery in the log. */
export const WebhookEntry = Schema.Struct({
  /** The same for all attempts, so that receivers can detect repeats. */
  id: Schema.String,
  /** The id of the job or, for `batch.*`, of the batch. */
  job: JobId,
  endpoint: EndpointId,
  event: Schema.Union([WebhookEvent, BatchWebhookEvent]),
  url: Schema.String,
  state: DeliveryState,
  /** When the job changed. All times are in milliseconds since 1970. */
  createdAt: Schema.Int,
  /** Number of claims. Never decreases: the fencing token of `settle`. */
  attempts: Schema.Int,
  /** When the delivery is due or, while it is claimed, when its lease ends. Null once the delivery has ended. */
  nextAt: Schema.NullOr(Schema.Int),
  /** When the last attempt ended; null before the first attempt has ended. */
  settledAt: Schema.NullOr(Schema.Int),
  /** The receiver's HTTP status in the last attempt; null without a response. */
  lastStatus: Schema.NullOr(Schema.Int),
  /** Why the last attempt failed. */
  lastError: Schema.NullOr(Schema.String)
})
export type WebhookEntry = typeof WebhookEntry.Type

/**
 * A delivery with its content. The body is the job object with `input` and `webhook` (docs/spec/webhooks.md#request) or, for `batch.*`, the
 * batch object; `WebhookBodies` resolves it. The trace context comes from the request that submitted the job.
 */
export const WebhookDelivery = Schema.Struct({
  ...WebhookEntry.fields,
  body: JsonText,
  traceparent: Schema.NullOr(Schema.String),
  tracestate: Schema.NullOr(Schema.String)
})
export type WebhookDelivery = typeof WebhookDelivery.Type

/** A delivery caused by a change to a job or a batch. */
export type NewDelivery = Pick<
  WebhookDelivery,
  "job" | "endpoint" | "event" | "url" | "body" | "traceparent" | "tracestate" | "createdAt"
>

/** A pending delivery, due at once, in the slot of its job or batch. */
export const newDelivery = (delivery: NewDelivery): WebhookDelivery => ({
  ...delivery,
  id: uuidV7At(delivery.createdAt, slotOfId(delivery.job)),
  state: "pending",
  attempts: 0,
  nextAt: delivery.createdAt,
  settledAt: null,
  lastStatus: null,
  lastError: null
})

/** The outcome of an attempt. */
export type DeliveryOutcome =
  & { readonly at: number; readonly status: number | null; readonly error: string | null }
  & (
    | { readonly _tag: "Delivered" }
    /** Retry at `nextAt`. */
    | { readonly _tag: "Retry"; readonly nextAt: number }
    /** No more attempts, except by `resend`. */
    | { readonly _tag: "Failed" }
  )

/** Filters and page size. `job` is the id of a job or a batch. */
export interface DeliveryQuery {
  readonly endpoint?: EndpointId | undefined
  readonly job?: JobId | undefined
  readonly state?: DeliveryState | undefined
  readonly limit: number
  /** The `next` cursor of the previous page. */
  readonly after?: ListCursor | undefined
}

/** A page of the log, newest first ({@link ListCursor}). */
export interface DeliveryPage {
  readonly deliveries: ReadonlyArray<WebhookEntry>
  /** Cursor of the next page; null at the end. */
  readonly next: ListCursor | null
}

export class WebhookStore extends Context.Service<WebhookStore, {
  /**
   * Claims up to `limit` pending deliveries that are due, starting with the earliest due time. Two senders never get the same delivery. A
   * delivery that is not settled is due again after `leaseMs`. Logs an unreadable delivery once and postpones it by an hour, so that it
   * does not block others.
   */
  readonly claimDue: (
    now: number,
    limit: number,
    leaseMs: number
  ) => Effect.Effect<ReadonlyArray<WebhookDelivery>, StoreError>

  /**
   * Stores the outcome of an attempt. Returns false and changes nothing when the delivery is on another attempt, has ended or has been removed.
   */
  readonly settle: (
    endpoint: EndpointId,
    id: string,
    attempt: number,
    outcome: DeliveryOutcome
  ) => Effect.Effect<boolean, StoreError>

  /** When the next pending delivery is due; null without pending deliveries. */
  readonly nextDueAt: Effect.Effect<number | null, StoreError>

  readonly list: (query: DeliveryQuery) => Effect.Effect<DeliveryPage, StoreError>

  readonly get: (endpoint: EndpointId, id: string) => Effect.Effect<WebhookDelivery | undefined, StoreError>

  /** Makes a delivery pending and due at `now`, in any state. Undefined for an unknown id. */
  readonly resend: (
    endpoint: EndpointId,
    id: string,
    now: number
  ) => Effect.Effect<WebhookEntry | undefined, StoreError>

  /** Removes up to `limit` deliveries that ended before `time`. Returns their number. */
  readonly removeBefore: (time: number, limit: number) => Effect.Effect<number, StoreError>

  /** Removes up to `limit` ended deliveries of an endpoint. Returns their number. */
  readonly removeEnded: (endpoint: EndpointId, limit: number) => Effect.Effect<number, StoreError>
}>()("@stint/store/WebhookStore") {}

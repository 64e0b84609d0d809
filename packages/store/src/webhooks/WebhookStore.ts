/**
 * The seam of the webhook outbox: what is to be told to whom, kept until it was.
 *
 * ```
 *   a job changes ---- same commit ----> [ pending ] --claimDue--> a sender has it for `leaseMs`
 *                                          ^  |  ^                       |
 *                                          |  |  +--- Retry, lease over -+
 *                                   resend |  |                          | settle
 *                                          |  +---- [ delivered ] <------+
 *                                          +------- [ failed ] <---------+
 * ```
 *
 * A `JobStore`, or a `BatchStore`, writes the rows in the commit of the change that they tell of: what was never committed is never sent, and what was is sent
 * at least once (R10, docs/spec/figures.md#reliability). A sender that dies has its deliveries claimed again when its lease is over.
 *
 * The body is the job object as it stood, so a delivery says the same however late it goes out, and outlives its job. Deliveries that are
 * done with are kept until this seam is asked to remove them; that is the sender's duty, seven days after they ended.
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

/** What has become of a delivery. */
export const DeliveryState = Schema.Literals(["pending", "delivered", "failed"])
export type DeliveryState = typeof DeliveryState.Type

/** A delivery as the log shows it. */
export const WebhookEntry = Schema.Struct({
  /** The same for every attempt: receivers know a repetition by it. */
  id: Schema.String,
  /** Whose news it is: a job's id or, for `batch.*`, a batch's. */
  job: JobId,
  endpoint: EndpointId,
  event: Schema.Union([WebhookEvent, BatchWebhookEvent]),
  url: Schema.String,
  state: DeliveryState,
  /** When the job changed. Milliseconds since 1970, as are all times here. */
  createdAt: Schema.Int,
  /** How often it was handed to a sender. Never shrinks: who settles must name the attempt that it was given. */
  attempts: Schema.Int,
  /** When it is due, or while a sender has it, when that one's lease is over. Null when it has ended. */
  nextAt: Schema.NullOr(Schema.Int),
  /** When the last attempt ended; null before that. */
  settledAt: Schema.NullOr(Schema.Int),
  /** The receiver's HTTP status in the last attempt, where there was an answer. */
  lastStatus: Schema.NullOr(Schema.Int),
  /** Why the last attempt failed, in words. */
  lastError: Schema.NullOr(Schema.String)
})
export type WebhookEntry = typeof WebhookEntry.Type

/**
 * A delivery with what is sent: the job object (docs/spec/webhooks.md#request), with `input` and `webhook`, made whole by `WebhookBodies`, and the
 * span of
 * the request that submitted the job, where it came with one; for `batch.*` the batch object.
 */
export const WebhookDelivery = Schema.Struct({
  ...WebhookEntry.fields,
  body: JsonText,
  traceparent: Schema.NullOr(Schema.String),
  tracestate: Schema.NullOr(Schema.String)
})
export type WebhookDelivery = typeof WebhookDelivery.Type

/** A delivery that a change of a job or a batch causes. */
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

/** How an attempt ended. */
export type DeliveryOutcome =
  & { readonly at: number; readonly status: number | null; readonly error: string | null }
  & (
    | { readonly _tag: "Delivered" }
    /** Again at `nextAt`. */
    | { readonly _tag: "Retry"; readonly nextAt: number }
    /** Never again, but by `resend`. */
    | { readonly _tag: "Failed" }
  )

/** Which deliveries: those of a job or a batch, of an endpoint, or all. */
export interface DeliveryQuery {
  readonly endpoint?: EndpointId | undefined
  readonly job?: JobId | undefined
  readonly state?: DeliveryState | undefined
  readonly limit: number
  /** The `next` of the page before. */
  readonly after?: ListCursor | undefined
}

/** One page of the log, newest first. */
export interface DeliveryPage {
  readonly deliveries: ReadonlyArray<WebhookEntry>
  /** Where to go on; null at the end. */
  readonly next: ListCursor | null
}

export class WebhookStore extends Context.Service<WebhookStore, {
  /**
   * Takes up to `limit` pending deliveries that are due, those due longest first. Two senders never get the same one; each is due again
   * after `leaseMs` unless it was settled. One that cannot be read is logged once and put aside for an hour, for it must not hold up the
   * others.
   */
  readonly claimDue: (
    now: number,
    limit: number,
    leaseMs: number
  ) => Effect.Effect<ReadonlyArray<WebhookDelivery>, StoreError>

  /** Notes how an attempt ended. False, and nothing changes, where the delivery is at another attempt by now, ended or gone. */
  readonly settle: (
    endpoint: EndpointId,
    id: string,
    attempt: number,
    outcome: DeliveryOutcome
  ) => Effect.Effect<boolean, StoreError>

  /** When the next pending delivery is due; null when there is none. */
  readonly nextDueAt: Effect.Effect<number | null, StoreError>

  readonly list: (query: DeliveryQuery) => Effect.Effect<DeliveryPage, StoreError>

  readonly get: (endpoint: EndpointId, id: string) => Effect.Effect<WebhookDelivery | undefined, StoreError>

  /** Makes a delivery pending and due at `now`, whatever became of it. Undefined when there is none of that id. */
  readonly resend: (
    endpoint: EndpointId,
    id: string,
    now: number
  ) => Effect.Effect<WebhookEntry | undefined, StoreError>

  /** Removes up to `limit` deliveries that ended before `time`; how many there were. */
  readonly removeBefore: (time: number, limit: number) => Effect.Effect<number, StoreError>

  /** Removes up to `limit` deliveries of an endpoint that have ended; how many there were. */
  readonly removeEnded: (endpoint: EndpointId, limit: number) => Effect.Effect<number, StoreError>
}>()("@stint/store/WebhookStore") {}

/**
 * Webhooks, as a part of the control API: the delivery log of an endpoint, and what its deliveries are signed with.
 *
 * ```
 *   /api/v1/endpoints/{endpoint}/webhooks
 *     /deliveries                       GET    newest first: ?job ?state ?limit ?cursor
 *     /deliveries/{delivery}            GET    with its attempts and its body
 *     /deliveries/{delivery}/resend     POST   due now, whatever became of it
 *     /secret                           GET    made at first use
 *     /secret/rotate                    POST   another one; the present one signs too for a while
 * ```
 */
import { HttpApiEndpoint, HttpApiError, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { ControlAuthorization } from "../Authorization.ts"
import { BatchWebhookEvent } from "../batches/Batch.ts"
import { WebhookEvent } from "../jobs/Job.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { EndpointNotFound, InvalidRequest, PayloadTooLarge, Unavailable } from "../Problem.ts"

/** 404: no such delivery on this endpoint, or it is no longer kept. */
export class DeliveryNotFound extends HttpApiError.Problem<DeliveryNotFound>()("DeliveryNotFound", {
  type: "/problems/delivery-not-found",
  status: 404,
  title: "Delivery not found"
}, { error: Schema.String, hint: Schema.String }) {}

/** What has become of a delivery: it is to be sent (again), it arrived, or it was given up. */
export const WebhookDeliveryState = Schema.Literals(["pending", "delivered", "failed"])
export type WebhookDeliveryState = typeof WebhookDeliveryState.Type

/** A line of the delivery log. Times are milliseconds since 1970. */
export const WebhookDeliveryLine = Schema.Struct({
  /** What receivers see as `webhook-id`. */
  id: Schema.String,
  /** Whose news it is: a job's id or, for `batch.*`, a batch's. */
  job: Schema.String,
  endpoint: Schema.String,
  event: Schema.Union([WebhookEvent, BatchWebhookEvent]),
  url: Schema.String,
  state: WebhookDeliveryState,
  /** When the job changed. */
  createdAt: Schema.Int,
  /** When the next attempt is due, or while one is being made, when it is given up for lost. Null when it has ended. */
  nextAt: Schema.NullOr(Schema.Int),
  /** How often it was tried. */
  attemptCount: Schema.Int,
  /** The receiver's HTTP status in the last attempt, where there was an answer. */
  lastStatus: Schema.NullOr(Schema.Int),
  /** Why the last attempt failed, in words. */
  lastError: Schema.NullOr(Schema.String)
})
export type WebhookDeliveryLine = typeof WebhookDeliveryLine.Type

/** One attempt. */
export const WebhookAttemptLine = Schema.Struct({
  at: Schema.Int,
  durationMs: Schema.Int,
  status: Schema.NullOr(Schema.Int),
  error: Schema.NullOr(Schema.String)
})
export type WebhookAttemptLine = typeof WebhookAttemptLine.Type

/** A delivery with all that is known of it. */
export const WebhookDeliveryDetails = Schema.Struct({
  ...WebhookDeliveryLine.fields,
  /** Oldest first. */
  attempts: Schema.Array(WebhookAttemptLine),
  /** The job object as it is sent. */
  body: Schema.Json
})
export type WebhookDeliveryDetails = typeof WebhookDeliveryDetails.Type

/** What an endpoint's webhooks are signed with. Whoever has it can make webhooks that receivers take for the platform's. */
export const WebhookSigningSecret = Schema.Struct({
  endpoint: Schema.String,
  /** `whsec_` and the key in base64. */
  secret: Schema.String,
  createdAt: Schema.Int,
  /** Until when the secret before this one signs too, while it does. */
  previousUntil: Schema.optionalKey(Schema.Int)
})
export type WebhookSigningSecret = typeof WebhookSigningSecret.Type

/** How long the secret before a rotation signs too, unless told otherwise: a day to change it in every receiver. */
export const DEFAULT_SECRET_GRACE_MILLIS = 86_400_000

/** The body of `POST .../secret/rotate`; it may be empty. */
export const WebhookSecretRotation = Schema.Struct({
  /** 0 (a secret that leaked) to 90 days. Default: 24 hours. */
  graceMs: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 90 * 86_400_000 })))
})
export type WebhookSecretRotation = typeof WebhookSecretRotation.Type

/** Which lines of the log. */
export const WebhookDeliveryQuery = {
  job: Schema.optionalKey(Schema.String.annotate({ description: "Only deliveries of this job or batch." })),
  state: Schema.optionalKey(WebhookDeliveryState.annotate({ description: "Only deliveries in this state." })),
  /** 1 to 200. Default: 50. */
  limit: Schema.optionalKey(
    Schema.String.annotate({ description: "How many at a time: 1 to 200. Default: 50." }).pipe(
      Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 200 })), SchemaTransformation.numberFromString)
    )
  ),
  /** The `cursor` of the page before. */
  cursor: Schema.optionalKey(
    Schema.String.annotate({ description: "The `cursor` of the page before." }).check(
      Schema.isPattern(/^v1\.\d{1,15}\.\S{1,128}$/)
    )
  )
}

const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }
const delivery = { ...endpoint, delivery: Schema.String.annotate({ description: "The delivery's id." }) }

export class WebhooksApi extends HttpApiGroup.make("webhooks")
  .add(
    HttpApiEndpoint.get("listDeliveries", "/endpoints/:endpoint/webhooks/deliveries", {
      params: endpoint,
      query: WebhookDeliveryQuery,
      success: Schema.Struct({ deliveries: Schema.Array(WebhookDeliveryLine), cursor: Schema.NullOr(Schema.String) }),
      error: [InvalidRequest, EndpointNotFound, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "The delivery log",
      description: "What was sent to webhooks of the endpoint, or is to be, newest first. Go on with the `cursor` of " +
        "the answer until it is null."
    })),
    HttpApiEndpoint.get("getDelivery", "/endpoints/:endpoint/webhooks/deliveries/:delivery", {
      params: delivery,
      success: WebhookDeliveryDetails,
      error: [EndpointNotFound, DeliveryNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "A delivery",
      description: "One delivery with its attempts and the body as it is sent."
    })),
    HttpApiEndpoint.post("resendDelivery", "/endpoints/:endpoint/webhooks/deliveries/:delivery/resend", {
      params: delivery,
      success: WebhookDeliveryLine,
      error: [EndpointNotFound, DeliveryNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Send a delivery again",
      description: "Makes it due now, whatever became of it. Receivers see the same `webhook-id`."
    })),
    HttpApiEndpoint.get("getSecret", "/endpoints/:endpoint/webhooks/secret", {
      params: endpoint,
      success: WebhookSigningSecret,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "The signing secret",
      description: "What deliveries of the endpoint are signed with; made at first use. Whoever has it can make " +
        "webhooks that receivers take for the platform's."
    })),
    HttpApiEndpoint.post("rotateSecret", "/endpoints/:endpoint/webhooks/secret/rotate", {
      params: endpoint,
      payload: WebhookSecretRotation,
      success: WebhookSigningSecret,
      error: [InvalidRequest, PayloadTooLarge, EndpointNotFound, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Another signing secret",
      description: "From now on deliveries are signed with both, until the time of grace for the secret before is over.",
      bodyOptional: true,
      request: { graceMs: 3_600_000 }
    }))
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Webhooks", description: "What was told to whom, and how it is signed" }))
{}

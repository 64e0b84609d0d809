/**
 * The delivery log and the signing secret of an endpoint's webhooks (docs/spec/webhooks.md#delivery-log), a part of the control API.
 *
 * ```
 *   /api/v1/endpoints/{endpoint}/webhooks
 *     /deliveries                       GET    newest first: ?job ?state ?limit ?cursor
 *     /deliveries/{delivery}            GET    with attempts and body
 *     /deliveries/{delivery}/resend     POST   send again now
 *     /secret                           GET    created at first use
 *     /secret/rotate                    POST   replace it; the previous one also signs for a grace period
 * ```
 */
import { HttpApiEndpoint, HttpApiError, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { ControlAuthorization } from "../Authorization.ts"
import { BatchWebhookEvent } from "../batches/Batch.ts"
import { WebhookEvent } from "../jobs/Job.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { bodyErrors, EndpointNotFound, InvalidRequest, Unavailable } from "../Problem.ts"
import { Audited } from "./Audit.ts"

/** 404: the delivery does not exist, or its retention has ended. */
export class DeliveryNotFound extends HttpApiError.Problem<DeliveryNotFound>()("DeliveryNotFound", {
  type: "/problems/delivery-not-found",
  status: 404,
  title: "Delivery not found"
}, { error: Schema.String, hint: Schema.String }) {}

/** The state of a delivery: another attempt is scheduled, it was delivered, or all attempts failed. */
export const WebhookDeliveryState = Schema.Literals(["pending", "delivered", "failed"])
export type WebhookDeliveryState = typeof WebhookDeliveryState.Type

/** An entry in the delivery log. Times are in milliseconds since 1970. */
export const WebhookDeliveryLine = Schema.Struct({
  /** Sent to receivers as `webhook-id`. */
  id: Schema.String,
  /** The id of the job or, for `batch.*`, of the batch. */
  job: Schema.String,
  endpoint: Schema.String,
  event: Schema.Union([WebhookEvent, BatchWebhookEvent]),
  url: Schema.String,
  state: WebhookDeliveryState,
  /** When the event occurred. */
  createdAt: Schema.Int,
  /** When the next attempt is due. During an attempt: when the attempt is considered lost. Null once the delivery has ended. */
  nextAt: Schema.NullOr(Schema.Int),
  /** The number of attempts. */
  attemptCount: Schema.Int,
  /** The receiver's HTTP status in the last attempt. Null if there was no response. */
  lastStatus: Schema.NullOr(Schema.Int),
  /** Why the last attempt failed. */
  lastError: Schema.NullOr(Schema.String)
})
export type WebhookDeliveryLine = typeof WebhookDeliveryLine.Type

/** A delivery attempt. */
const WebhookAttemptLine = Schema.Struct({
  at: Schema.Int,
  durationMs: Schema.Int,
  status: Schema.NullOr(Schema.Int),
  error: Schema.NullOr(Schema.String)
})

/** A delivery with its attempts and body. */
export const WebhookDeliveryDetails = Schema.Struct({
  ...WebhookDeliveryLine.fields,
  /** Oldest first. */
  attempts: Schema.Array(WebhookAttemptLine),
  /** The request body. */
  body: Schema.Json
})
export type WebhookDeliveryDetails = typeof WebhookDeliveryDetails.Type

/** The signing secret of an endpoint's webhooks. Anyone with this secret can forge webhooks. */
export const WebhookSigningSecret = Schema.Struct({
  endpoint: Schema.String,
  /** `whsec_` and the key in base64. */
  secret: Schema.String,
  createdAt: Schema.Int,
  /** When requests stop being signed with the previous secret as well. Absent if only the current secret is used. */
  previousUntil: Schema.optionalKey(Schema.Int)
})
export type WebhookSigningSecret = typeof WebhookSigningSecret.Type

/** The default grace period of a rotation: one day, which leaves time to update all receivers. */
export const DEFAULT_SECRET_GRACE_MILLIS = 86_400_000

/** The body of `POST .../secret/rotate`, which may be empty. */
export const WebhookSecretRotation = Schema.Struct({
  /** For how long requests are signed with the previous secret as well: 0 (for a leaked secret) to 90 days. Default: 24 hours. */
  graceMs: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 90 * 86_400_000 })))
})
export type WebhookSecretRotation = typeof WebhookSecretRotation.Type

/** Filters and pagination of the delivery log. */
const WebhookDeliveryQuery = {
  job: Schema.optionalKey(Schema.String.annotate({ description: "Only deliveries of this job or batch." })),
  state: Schema.optionalKey(WebhookDeliveryState.annotate({ description: "Only deliveries in this state." })),
  limit: Schema.optionalKey(
    Schema.String.annotate({ description: "The maximum number of deliveries: 1 to 200. Default: 50." }).pipe(
      Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 200 })), SchemaTransformation.numberFromString)
    )
  ),
  cursor: Schema.optionalKey(
    Schema.String.annotate({ description: "The `cursor` of the previous page." }).check(
      Schema.isPattern(/^v1\.\d{1,15}\.\S{1,128}$/)
    )
  )
}

const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }
const delivery = { ...endpoint, delivery: Schema.String.annotate({ description: "The delivery's id." }) }

/** The operations on webhook deliveries and signing secrets. */
export class WebhooksApi extends HttpApiGroup.make("webhooks")
  .add(
    HttpApiEndpoint.get("listDeliveries", "/endpoints/:endpoint/webhooks/deliveries", {
      params: endpoint,
      query: WebhookDeliveryQuery,
      success: Schema.Struct({ deliveries: Schema.Array(WebhookDeliveryLine), cursor: Schema.NullOr(Schema.String) }),
      error: [InvalidRequest, EndpointNotFound, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "List webhook deliveries",
      description:
        "Lists the sent and pending deliveries of the endpoint's webhooks, newest first. Pass the `cursor` of the response to read " +
        "the next page, until it is null."
    })),
    HttpApiEndpoint.get("getDelivery", "/endpoints/:endpoint/webhooks/deliveries/:delivery", {
      params: delivery,
      success: WebhookDeliveryDetails,
      error: [EndpointNotFound, DeliveryNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get a webhook delivery",
      description: "Returns a delivery with its attempts and its request body."
    })),
    HttpApiEndpoint.post("resendDelivery", "/endpoints/:endpoint/webhooks/deliveries/:delivery/resend", {
      params: delivery,
      success: WebhookDeliveryLine,
      error: [EndpointNotFound, DeliveryNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Resend a webhook delivery",
      description: "Sends a delivery again now, whatever its state, with the same `webhook-id`."
    })),
    HttpApiEndpoint.get("getSecret", "/endpoints/:endpoint/webhooks/secret", {
      params: endpoint,
      success: WebhookSigningSecret,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotate(Audited, true).annotateMerge(operationDocs({
      summary: "Get the webhook signing secret",
      description:
        "Returns the secret that signs the endpoint's deliveries and is created at first use. Keep it private: anyone with this secret " +
        "can forge webhooks."
    })),
    HttpApiEndpoint.post("rotateSecret", "/endpoints/:endpoint/webhooks/secret/rotate", {
      params: endpoint,
      payload: WebhookSecretRotation,
      success: WebhookSigningSecret,
      error: [InvalidRequest, ...bodyErrors, EndpointNotFound, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Rotate the webhook signing secret",
      description:
        "Creates a new secret. Deliveries are signed with the new and the previous secret until the grace period ends.",
      bodyOptional: true,
      request: { graceMs: 3_600_000 }
    }))
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Webhooks", description: "Webhook deliveries and signing secrets" }))
{}

/**
 * The control API for webhooks: the delivery log, resending, and signing secrets.
 */
import { Api } from "@stint/contract/Api"
import { JobId } from "@stint/contract/Ids"
import { problemMembers } from "@stint/contract/Problem"
import {
  DEFAULT_SECRET_GRACE_MILLIS,
  DeliveryNotFound,
  type WebhookDeliveryLine,
  WebhookSecretRotation,
  type WebhookSigningSecret
} from "@stint/contract/WebhooksApi"
import { decodeListCursor, encodeListCursor } from "@stint/store/ListCursor"
import type { StoreError } from "@stint/store/StoreError"
import { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import { WebhookBodies } from "@stint/store/WebhookBodies"
import { type WebhookSecret, WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import { type WebhookEntry, WebhookStore } from "@stint/store/WebhookStore"
import * as WebhookSecrets from "@stint/webhooks/WebhookSecrets"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { endpointFinder, mapStoreErrors } from "../http/QueueProblems.ts"
import { decoder, parseJson, readText } from "../http/RequestBody.ts"

const PAGE = 50

const rotationHint = "Send an empty body, or how long the current secret also signs: {\"graceMs\": 3600000}."
const decodeRotation = decoder(WebhookSecretRotation, rotationHint, { unknown: "error" })
const decodeBody = Schema.decodeSync(Schema.fromJsonString(Schema.Json))
const isJobId = Schema.is(JobId)

/** Responses that contain a secret must not be cached. */
const noStore = HttpEffect.appendPreResponseHandler((_, response) =>
  Effect.succeed(HttpServerResponse.setHeader(response, "cache-control", "no-store"))
)

const deliveryMissing = (id: string, endpoint: string) =>
  new DeliveryNotFound(problemMembers(
    `There is no webhook delivery "${excerpt(id)}" on the endpoint "${endpoint}".`,
    `List deliveries with: stint webhooks list ${endpoint}. Ended deliveries are deleted after seven days.`
  ))

const lineOf = (entry: WebhookEntry, attemptCount: number): WebhookDeliveryLine => ({
  id: entry.id,
  job: entry.job,
  endpoint: entry.endpoint,
  event: entry.event,
  url: entry.url,
  state: entry.state,
  createdAt: entry.createdAt,
  nextAt: entry.nextAt,
  attemptCount,
  lastStatus: entry.lastStatus,
  lastError: entry.lastError
})

const secretOf = ({ createdAt, endpoint, previous, secret }: WebhookSecret, now: number): WebhookSigningSecret => ({
  endpoint,
  secret: Redacted.value(secret),
  createdAt,
  ...(previous !== null && previous.until > now ? { previousUntil: previous.until } : {})
})

export const layer = HttpApiBuilder.group(
  Api,
  "webhooks",
  Effect.fnUntraced(function*(handlers) {
    const store = yield* WebhookStore
    const attempts = yield* WebhookAttemptStore
    const secrets = yield* WebhookSecretStore
    const bodies = yield* WebhookBodies
    const limits = yield* Limits
    const findEndpoint = yield* endpointFinder

    const toLine = (entry: WebhookEntry) =>
      Effect.map(mapStoreErrors(attempts.attemptCounts(entry.id)), ({ all }) => lineOf(entry, all))

    const find = Effect.fnUntraced(function*(params: { readonly endpoint: string; readonly delivery: string }) {
      const endpoint = yield* findEndpoint(params.endpoint, true)
      const delivery = yield* mapStoreErrors(store.get(endpoint.id, params.delivery))
      return delivery ?? (yield* deliveryMissing(params.delivery, endpoint.id))
    })

    const respondWithSecret = Effect.fnUntraced(function*(change: Effect.Effect<WebhookSecret, StoreError, WebhookSecretStore>) {
      const secret = yield* mapStoreErrors(Effect.provideService(change, WebhookSecretStore, secrets))
      yield* noStore
      return secretOf(secret, yield* Clock.currentTimeMillis)
    })

    return handlers
      .handle(
        "listDeliveries",
        Effect.fnUntraced(function*({ params, query }) {
          const endpoint = yield* findEndpoint(params.endpoint, true)
          const { cursor, job, limit, state } = query
          // There are no deliveries for an invalid job id.
          if (job !== undefined && !isJobId(job)) return { deliveries: [], cursor: null }
          const page = yield* mapStoreErrors(store.list({
            endpoint: endpoint.id,
            job,
            state,
            limit: limit ?? PAGE,
            after: cursor === undefined ? undefined : decodeListCursor(cursor)
          }))
          return {
            deliveries: yield* Effect.forEach(page.deliveries, toLine),
            cursor: page.next === null ? null : encodeListCursor(page.next)
          }
        })
      )
      .handle(
        "getDelivery",
        Effect.fnUntraced(function*({ params }) {
          const delivery = yield* find(params)
          const tried = yield* mapStoreErrors(attempts.list(delivery.id))
          return {
            ...lineOf(delivery, tried.length),
            attempts: tried.map(({ at, durationMs, error, status }) => ({ at, durationMs, status, error })),
            body: decodeBody(yield* mapStoreErrors(bodies.resolve(delivery.body)))
          }
        })
      )
      .handle(
        "resendDelivery",
        Effect.fnUntraced(function*({ params }) {
          const { endpoint, id } = yield* find(params)
          const resent = yield* mapStoreErrors(store.resend(endpoint, id, yield* Clock.currentTimeMillis))
          return resent === undefined ? yield* deliveryMissing(id, endpoint) : yield* toLine(resent)
        })
      )
      .handle(
        "getSecret",
        Effect.fnUntraced(function*({ params }) {
          return yield* respondWithSecret(WebhookSecrets.current((yield* findEndpoint(params.endpoint, true)).id))
        })
      )
      .handleRaw(
        "rotateSecret",
        Effect.fnUntraced(function*({ params, request }) {
          const endpoint = yield* findEndpoint(params.endpoint, true)
          const text = yield* readText(
            request,
            limits.controlBytes,
            "Rotation settings are small. Check that the body contains only settings."
          )
          const value = yield* parseJson(text.trim() === "" ? "{}" : text, rotationHint)
          const { graceMs } = yield* decodeRotation(value)
          return yield* respondWithSecret(WebhookSecrets.rotate(endpoint.id, graceMs ?? DEFAULT_SECRET_GRACE_MILLIS))
        })
      )
  })
)

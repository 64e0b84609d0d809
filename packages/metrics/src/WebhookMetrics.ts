/**
 * Counts the attempts to deliver webhooks, by outcome. Wraps the webhook store, which receives every outcome.
 */
import { type DeliveryOutcome, WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import { EndpointLabels } from "./MetricLabels.ts"

const attempts = Metric.counter("stint_webhook_attempts_total", {
  description: "Attempts to deliver a webhook, by outcome: delivered, retry, or failed when no attempt is left.",
  incremental: true
})

const OUTCOMES: { readonly [tag in DeliveryOutcome["_tag"]]: string } = {
  Delivered: "delivered",
  Retry: "retry",
  Failed: "failed"
}

/** The webhook store, measured. */
export const layer: Layer.Layer<WebhookStore, never, WebhookStore> = Layer.effect(
  WebhookStore,
  Effect.gen(function*() {
    const store = yield* WebhookStore
    const labels = new EndpointLabels()
    return WebhookStore.of({
      ...store,
      settle: (endpoint, id, attempt, outcome) =>
        Effect.tap(store.settle(endpoint, id, attempt, outcome), (settled) => {
          const series = Metric.withAttributes(attempts, { endpoint: labels.of(endpoint), outcome: OUTCOMES[outcome._tag] })
          return settled ? Metric.update(series, 1) : Effect.void
        })
    })
  })
)

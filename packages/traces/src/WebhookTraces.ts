/**
 * Creates the spans for webhooks: one for each attempt to send a webhook, below the span of the job's submission. The receiver gets the span in its
 * `traceparent`.
 *
 * Wraps the outbox, which returns deliveries with their trace context, and the log of attempts, which contains the times.
 */
import type { SpanExport } from "@stint/otel/SpanExport"
import { type WebhookAttempt, WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import { type WebhookDelivery, WebhookStore } from "@stint/store/WebhookStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TraceIds from "./TraceIds.ts"

/** The number of claimed deliveries that are remembered. Larger than the number that the sender claims. */
const MAX_CLAIMED = 2_048

type Claimed = Pick<WebhookDelivery, "job" | "endpoint" | "event" | "url" | "attempts"> & { readonly trace: TraceIds.JobTrace }

const make = Effect.fnUntraced(function*(spans: SpanExport, sampler: TraceIds.Sampler) {
  const store = yield* WebhookStore
  const attempts = yield* WebhookAttemptStore
  const claimed = new Map<string, Claimed>()

  const claim = (delivery: WebhookDelivery): WebhookDelivery => {
    const { attempts, endpoint, event, id, job, url } = delivery
    // A batch has no trace of its own.
    if (event.startsWith("batch.")) return delivery
    const trace = TraceIds.traceOf(job, delivery, sampler)
    if (!trace.sampled) return delivery
    const [oldest] = claimed.keys()
    if (claimed.size >= MAX_CLAIMED && oldest !== undefined) claimed.delete(oldest)
    claimed.set(id, { job, endpoint, event, url, attempts, trace })
    return { ...delivery, traceparent: TraceIds.traceparentOf(trace, TraceIds.webhookSpan(id, attempts)) }
  }

  const add = ({ at, delivery, durationMs, error, final, status }: WebhookAttempt) => {
    const found = claimed.get(delivery)
    if (found === undefined) return
    claimed.delete(delivery)
    const { attempts, endpoint, event, job, trace, url } = found
    const { hostname, port, protocol } = URL.parse(url) ?? { hostname: "", port: "", protocol: "" }
    spans.add({
      name: `webhook ${event}`,
      kind: "client",
      traceId: trace.traceId,
      traceState: trace.traceState,
      spanId: TraceIds.webhookSpan(delivery, attempts),
      parentSpanId: TraceIds.sendSpan(job),
      start: at,
      end: at + durationMs,
      // Without the path, which may contain a secret.
      attributes: {
        "http.request.method": "POST",
        "http.response.status_code": status ?? undefined,
        "server.address": hostname,
        "server.port": port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
        "stint.endpoint": endpoint,
        "stint.job.id": job,
        "stint.webhook.id": delivery,
        "stint.webhook.event": event,
        "stint.webhook.attempt": attempts,
        "stint.webhook.final": final
      },
      links: [],
      error: error === null ? undefined : { type: status === null ? "_OTHER" : String(status), message: error }
    })
  }

  return {
    store: WebhookStore.of({
      ...store,
      claimDue: (now, limit, leaseMs) => Effect.map(store.claimDue(now, limit, leaseMs), (due) => due.map(claim))
    }),
    attempts: WebhookAttemptStore.of({
      ...attempts,
      add: (attempt) =>
        Effect.suspend(() => {
          add(attempt)
          return attempts.add(attempt)
        })
    })
  }
})

/** The outbox and the log of attempts, traced. */
export const layer = (
  spans: SpanExport,
  sampler: TraceIds.Sampler
): Layer.Layer<WebhookStore | WebhookAttemptStore, never, WebhookStore | WebhookAttemptStore> =>
  Layer.effectContext(
    Effect.map(
      make(spans, sampler),
      ({ attempts, store }) => Context.make(WebhookStore, store).pipe(Context.add(WebhookAttemptStore, attempts))
    )
  )

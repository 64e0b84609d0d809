/**
 * The webhook that a change to a batch sends.
 */
import { JobId } from "@stint/contract/Ids"
import type { NewDelivery } from "../webhooks/WebhookStore.ts"
import { batchJson } from "./BatchJson.ts"
import { type BatchRecord, webhookEventOf } from "./BatchMachine.ts"

/** The delivery; undefined when the change sends none, or the batch has no webhook. */
export const batchWebhook = (before: BatchRecord, after: BatchRecord, now: number): NewDelivery | undefined => {
  const event = webhookEventOf(before, after)
  if (event === undefined || after.webhook === null) return undefined
  return {
    job: JobId.make(after.id),
    // Requests of several callers can belong to one batch, so the batch has no trace context of its own.
    traceparent: null,
    tracestate: null,
    endpoint: after.endpoint,
    event,
    url: after.webhook,
    body: batchJson(after),
    createdAt: now
  }
}

/**
 * The states of webhook deliveries, as the console shows them.
 */
import type { WebhookDeliveryState } from "@stint/contract/WebhooksApi"
import type { Tone } from "../jobs/JobStates.ts"

/** The colour and the name of each state. */
export const DELIVERY_STATES: Readonly<Record<WebhookDeliveryState, { readonly tone: Tone; readonly word: string }>> = {
  pending: { tone: "waiting", word: "Pending" },
  delivered: { tone: "done", word: "Delivered" },
  failed: { tone: "failed", word: "Failed" }
}

/**
 * Maps job changes to webhook events. A store calls this module for every change and writes the delivery in the same commit.
 */
import { isTerminal, type WebhookEvent } from "@stint/contract/Job"
import type { JobMachineEvent } from "../jobs/JobMachine.ts"
import type { JobHead } from "../jobs/JobRecord.ts"

const eventOfChange = (event: JobMachineEvent, before: JobHead, after: JobHead): WebhookEvent | undefined => {
  if (isTerminal(after.status)) return isTerminal(before.status) ? undefined : "completed"
  switch (event._tag) {
    case "Claim":
      return "start"
    case "Chunk":
      return "output"
    case "Progress":
      return "progress"
    default:
      return undefined
  }
}

/** The webhook event of a change; undefined when the webhook has not subscribed to it. */
export const webhookEventOf = (event: JobMachineEvent, before: JobHead, after: JobHead): WebhookEvent | undefined => {
  if (after.webhook === null) return undefined
  const webhookEvent = eventOfChange(event, before, after)
  return webhookEvent !== undefined && after.webhook.events.includes(webhookEvent) ? webhookEvent : undefined
}

/**
 * Which changes of a job are told to its webhook. Pure: a store asks for every change, and writes what it is told in the same commit.
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

/** What the job's webhook is to be told of a change; undefined: nothing. */
export const webhookEventOf = (event: JobMachineEvent, before: JobHead, after: JobHead): WebhookEvent | undefined => {
  if (after.webhook === null) return undefined
  const what = eventOfChange(event, before, after)
  return what !== undefined && after.webhook.events.includes(what) ? what : undefined
}

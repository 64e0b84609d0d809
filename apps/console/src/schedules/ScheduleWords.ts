/**
 * Texts for schedules.
 */
import type { Schedule, ScheduleFiring, ScheduleSpec } from "@stint/contract/Schedule"
import { inZone } from "../format/Zones.ts"
import type { Tone } from "../jobs/JobStates.ts"

/** When a schedule fires: its expression with its time zone, or its single time. */
export const whenText = ({ at, cron, timeZone }: ScheduleSpec, zone: string): string =>
  cron === undefined ? `once, ${at === undefined ? "" : inZone(at, zone)}` : `${cron} (${timeZone})`

/** The state of a schedule: how it looks, and its word. */
export const stateOf = ({ next, paused, waiting }: Pick<Schedule, "next" | "paused" | "waiting">): readonly [Tone, string] => {
  if (paused) return ["ended", "Paused"]
  if (waiting.length > 0) return ["waiting", "Waits for its previous job"]
  return next.length === 0 ? ["ended", "Over"] : ["done", "Active"]
}

const OUTCOMES: Readonly<Record<ScheduleFiring["outcome"], readonly [Tone, string]>> = {
  submitted: ["done", "Submitted"],
  skipped: ["ended", "Skipped"],
  missed: ["waiting", "Missed"],
  failed: ["failed", "Failed"]
}

/** The outcome of a firing. */
export const outcomeOf = (outcome: ScheduleFiring["outcome"]): readonly [Tone, string] => OUTCOMES[outcome]

/** The overlap rules, in the words of the form. */
export const OVERLAPS: Readonly<Record<ScheduleSpec["overlap"], string>> = {
  skip: "Skip: no job while the previous one has not ended",
  queue: "Queue: submit the job when the previous one has ended",
  replace: "Replace: submit the job and cancel the previous one",
  allow: "Allow: submit the job while the previous one runs"
}

/** The catch-up rules, in the words of the form. */
export const CATCH_UPS: Readonly<Record<ScheduleSpec["catchUp"], string>> = {
  none: "None: drop missed times",
  last: "Last: fire for the latest missed time",
  all: "All: fire for the latest missed times, oldest first"
}

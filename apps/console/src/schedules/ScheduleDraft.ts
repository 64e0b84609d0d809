/**
 * A schedule as typed into the form, and the resulting settings.
 */
import type { ScheduleSpec } from "@stint/contract/Schedule"
import { Cron } from "croner"
import { checkJson } from "../endpoints/JsonCheck.ts"
import { isZone, localZone } from "../format/Zones.ts"

/** The texts of the fields. */
export interface ScheduleDraft {
  readonly repeats: boolean
  readonly cron: string
  readonly timeZone: string
  /** `2026-11-24T03:00`, in the time zone of the browser. */
  readonly at: string
  readonly input: string
  readonly overlap: ScheduleSpec["overlap"]
  readonly catchUp: ScheduleSpec["catchUp"]
  readonly catchUpLimit: string
  readonly jitterSeconds: string
}

/** What is wrong with each field. */
export type DraftProblems = { readonly [field in keyof ScheduleDraft]?: string }

const pad = (value: number, digits = 2): string => String(value).padStart(digits, "0")

const localTime = (time: number): string => {
  const date = new Date(time)
  return `${pad(date.getFullYear(), 4)}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}T${pad(date.getHours())}:${
    pad(date.getMinutes())
  }:${pad(date.getSeconds())}`
}

/** The texts of the fields for a schedule, or for a new one. */
export const draftOf = (spec?: ScheduleSpec): ScheduleDraft => ({
  repeats: spec?.at === undefined,
  cron: spec?.cron ?? (spec === undefined ? "0 3 * * *" : ""),
  timeZone: spec?.timeZone ?? localZone(),
  at: spec?.at === undefined ? "" : localTime(spec.at),
  input: JSON.stringify(spec?.input ?? {}, null, 2),
  overlap: spec?.overlap ?? "skip",
  catchUp: spec?.catchUp ?? "last",
  catchUpLimit: String(spec?.catchUpLimit ?? 10),
  jitterSeconds: String((spec?.jitterMs ?? 0) / 1_000)
})

/** The first times after `after` at which an expression fires, or what is wrong with the expression. */
export const timesOf = (
  cron: string,
  timeZone: string,
  after: number,
  most = 5
): { readonly times: ReadonlyArray<number> } | { readonly reason: string } => {
  if (!cron.startsWith("@") && cron.trim().split(/\s+/).length !== 5) {
    return { reason: "Write five fields: minute, hour, day of the month, month, day of the week. Or a name such as @daily." }
  }
  try {
    // The platform computes them in the same way (packages/schedule/src/CronTimes.ts).
    const found = new Cron(cron, { mode: "5-part", timezone: timeZone, paused: true })
    const times = found.nextRuns(most, new Date(after)).map((time) => time.getTime())
    return times.length === 0 ? { reason: "This never occurs." } : { times }
  } catch (error) {
    return { reason: error instanceof Error ? error.message.replace(/^CronPattern: /, "") : String(error) }
  }
}

const numberIn = (text: string, minimum: number, maximum: number): number | undefined => {
  const value = Number(text)
  return text.trim() === "" || !(value >= minimum && value <= maximum) ? undefined : value
}

const problemsOf = (draft: ScheduleDraft): DraftProblems => {
  const problems: { -readonly [field in keyof ScheduleDraft]?: string } = {}
  if (!draft.repeats) {
    if (!Number.isFinite(new Date(draft.at).getTime())) problems.at = "Choose a date and a time."
  } else if (isZone(draft.timeZone)) {
    const found = timesOf(draft.cron, draft.timeZone, 0, 1)
    if ("reason" in found) problems.cron = found.reason
  } else {
    problems.timeZone = "Write a time zone such as Europe/Berlin or UTC."
  }
  const json = checkJson(draft.input)
  if (!json.isValid) problems.input = json.reason
  const limit = numberIn(draft.catchUpLimit, 1, 100)
  if (draft.catchUp === "all" && (limit === undefined || !Number.isInteger(limit))) {
    problems.catchUpLimit = "Write a whole number from 1 to 100."
  }
  if (numberIn(draft.jitterSeconds, 0, 3_600) === undefined) problems.jitterSeconds = "Write seconds from 0 to 3600."
  return problems
}

/**
 * The settings, or what is wrong with each field. Settings that the form does not show, such as the webhook and the tags, keep their previous values.
 */
export const specOf = (
  draft: ScheduleDraft,
  kept?: ScheduleSpec
): { readonly spec: ScheduleSpec } | { readonly problems: DraftProblems } => {
  const problems = problemsOf(draft)
  if (Object.keys(problems).length > 0) return { problems }
  const { at: _at, cron: _cron, ...others } = kept ?? {}
  const input: ScheduleSpec["input"] = JSON.parse(draft.input)
  return {
    spec: {
      ...others,
      // The field has no milliseconds, so a time that was not changed is kept exactly.
      ...(draft.repeats
        ? { cron: draft.cron.trim() }
        : { at: kept?.at !== undefined && draft.at === localTime(kept.at) ? kept.at : new Date(draft.at).getTime() }),
      timeZone: draft.timeZone,
      input,
      overlap: draft.overlap,
      catchUp: draft.catchUp,
      catchUpLimit: draft.catchUp === "all" ? Number(draft.catchUpLimit) : kept?.catchUpLimit ?? 10,
      jitterMs: Math.round(Number(draft.jitterSeconds) * 1_000)
    }
  }
}

/**
 * The settings of an endpoint as typed into the form, and the resulting spec.
 */
import type { Endpoint, EndpointSpec } from "@stint/contract/Endpoint"

/** The texts of the fields. Times are in seconds. */
export interface SettingsDraft {
  readonly min: string
  readonly max: string
  readonly idleSeconds: string
  readonly scaler: EndpointSpec["scaler"]["type"]
  readonly scalerValue: string
  readonly executionSeconds: string
  readonly ttlSeconds: string
  readonly maxAttempts: string
  readonly leaseSeconds: string
  readonly retentionSeconds: string
}

/** What is wrong with each field. */
export type SettingsProblems = { readonly [field in keyof SettingsDraft]?: string }

const DAY_SECONDS = 86_400

/** The values that a field permits. The platform checks them again (packages/contract/src/control/Endpoint.ts). */
interface Range {
  readonly from: number
  readonly to: number
  readonly isWhole?: boolean
}

const WORKERS: Range = { from: 0, to: 10_000, isWhole: true }

/** The values that a scaler permits. */
const SCALER: Readonly<Record<SettingsDraft["scaler"], Range>> = {
  QUEUE_DELAY: { from: 0.1, to: 3_600 },
  REQUEST_COUNT: { from: 1, to: 100_000 }
}

const rangesOf = ({ scaler }: SettingsDraft, source: Endpoint["source"]["type"]) =>
  ({
    min: WORKERS,
    max: WORKERS,
    idleSeconds: { from: 0, to: 3_600 },
    scalerValue: SCALER[scaler],
    executionSeconds: { from: 5, to: 7 * DAY_SECONDS },
    ttlSeconds: { from: 10, to: 7 * DAY_SECONDS },
    maxAttempts: { from: 1, to: 100, isWhole: true },
    leaseSeconds: { from: source === "handler" ? 1 : 3, to: 3_600 },
    retentionSeconds: { from: 1, to: 30 * DAY_SECONDS }
  }) satisfies Partial<Record<keyof SettingsDraft, Range>>

const secondsOf = (millis: number): string => String(millis / 1_000)

const millisOf = (seconds: string): number => Math.round(Number(seconds) * 1_000)

/** The texts of the fields for an endpoint. */
export const settingsDraftOf = (endpoint: Endpoint): SettingsDraft => {
  const { executionTimeoutMs, leaseMs, maxAttempts, retentionMs, scaler, ttlMs, workers } = endpoint
  return {
    min: String(workers.min),
    max: String(workers.max),
    idleSeconds: secondsOf(workers.idleTimeoutMs),
    scaler: scaler.type,
    scalerValue: String(scaler.value),
    executionSeconds: secondsOf(executionTimeoutMs),
    ttlSeconds: secondsOf(ttlMs),
    maxAttempts: String(maxAttempts),
    leaseSeconds: secondsOf(leaseMs),
    retentionSeconds: secondsOf(retentionMs)
  }
}

const problemWith = (text: string, { from, isWhole = false, to }: Range): string | undefined => {
  const value = Number(text)
  const isValid = text.trim() !== "" && value >= from && value <= to && (!isWhole || Number.isInteger(value))
  return isValid ? undefined : `Write a ${isWhole ? "whole number" : "number"} from ${from} to ${to}.`
}

const problemsOf = (draft: SettingsDraft, { source, workers }: Endpoint): SettingsProblems => {
  const problems: { -readonly [field in keyof SettingsDraft]?: string } = {}
  const ranges = rangesOf(draft, source.type)
  for (
    const field of [
      "min",
      "max",
      "idleSeconds",
      "scalerValue",
      "executionSeconds",
      "ttlSeconds",
      "maxAttempts",
      "leaseSeconds",
      "retentionSeconds"
    ] as const
  ) {
    const problem = problemWith(draft[field], ranges[field])
    if (problem !== undefined) problems[field] = problem
  }
  if (problems.min === undefined && problems.max === undefined) {
    const warm = Math.max(0, ...(workers.warm ?? []).map(({ min }) => min))
    if (Number(draft.min) > Number(draft.max)) problems.min = "Write at most the maximum."
    else if (warm > Number(draft.max)) problems.max = `Write at least ${warm}, which a warm time needs.`
  }
  return problems
}

/** The current settings of an endpoint. */
export const currentOf = (endpoint: Endpoint): EndpointSpec => {
  const { canary: _canary, createdAt: _createdAt, previousRelease: _previous, release: _release, ...spec } = endpoint
  return spec
}

/** A maximum for callers that was the value itself follows the value. A higher one is kept if it still is one. */
const limitOf = (limit: number, before: number, after: number): number => limit === before ? after : Math.max(limit, after)

/**
 * The spec to deploy, or what is wrong with each field. Settings that the form does not show, such as the source and the variables, keep their
 * values.
 */
export const settingsSpecOf = (
  draft: SettingsDraft,
  endpoint: Endpoint
): { readonly spec: EndpointSpec } | { readonly problems: SettingsProblems } => {
  const problems = problemsOf(draft, endpoint)
  if (Object.keys(problems).length > 0) return { problems }
  const kept = currentOf(endpoint)
  const [executionTimeoutMs, ttlMs] = [millisOf(draft.executionSeconds), millisOf(draft.ttlSeconds)]
  return {
    spec: {
      ...kept,
      workers: {
        ...kept.workers,
        min: Number(draft.min),
        max: Number(draft.max),
        idleTimeoutMs: millisOf(draft.idleSeconds)
      },
      scaler: { type: draft.scaler, value: Number(draft.scalerValue) },
      executionTimeoutMs,
      ttlMs,
      limits: {
        ...kept.limits,
        executionTimeoutMs: limitOf(kept.limits.executionTimeoutMs, kept.executionTimeoutMs, executionTimeoutMs),
        ttlMs: limitOf(kept.limits.ttlMs, kept.ttlMs, ttlMs)
      },
      maxAttempts: Number(draft.maxAttempts),
      leaseMs: millisOf(draft.leaseSeconds),
      retentionMs: millisOf(draft.retentionSeconds)
    }
  }
}

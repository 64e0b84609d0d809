/**
 * The settings of an endpoint as typed into the form, and the resulting spec.
 */
import type { Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import type { SecretName } from "@stint/contract/Secret"

/** A variable of the workers. `value`: the value itself, or the name of a secret. */
export interface VariableDraft {
  readonly name: string
  readonly kind: "value" | "secret"
  readonly value: string
}

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
  /** The most waiting jobs. Empty: any number. */
  readonly waitingJobs: string
  /** Empty, together with its limit: no concurrency key. */
  readonly concurrencyKey: string
  readonly concurrencyLimit: string
  /** Empty, together with its window: no rate limit. */
  readonly rateCalls: string
  readonly rateSeconds: string
  readonly variables: ReadonlyArray<VariableDraft>
}

/** The fields that are texts. */
export type TextSetting = Exclude<keyof SettingsDraft, "scaler" | "variables">

/** What is wrong with each field, and with each variable by its index. */
export type SettingsProblems = { readonly [field in TextSetting]?: string } & {
  readonly variables?: ReadonlyArray<string | undefined>
}

const DAY_SECONDS = 86_400

/** The values that a field permits. The platform checks them again (packages/contract/src/control). */
export interface Range {
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

/** The fields that may be empty. */
const OPTIONAL: ReadonlySet<TextSetting> = new Set(["waitingJobs", "concurrencyLimit", "rateCalls", "rateSeconds"])

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
    retentionSeconds: { from: 1, to: 30 * DAY_SECONDS },
    waitingJobs: { from: 1, to: 10_000_000, isWhole: true },
    concurrencyLimit: { from: 1, to: 100_000, isWhole: true },
    rateCalls: { from: 1, to: 1_000_000, isWhole: true },
    rateSeconds: { from: 1, to: DAY_SECONDS, isWhole: true }
  }) satisfies Partial<Record<keyof SettingsDraft, Range>>

/** The text of a field. Empty: the setting is absent. */
export const textOf = (value: number | string | undefined): string => value === undefined ? "" : String(value)

const secondsOf = (millis: number): string => String(millis / 1_000)

const millisOf = (seconds: string): number => Math.round(Number(seconds) * 1_000)

/** The texts of the fields for an endpoint. */
export const settingsDraftOf = (endpoint: Endpoint): SettingsDraft => {
  const { concurrency, env, executionTimeoutMs, leaseMs, limits, maxAttempts, rateLimit, retentionMs, scaler, ttlMs, workers } =
    endpoint
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
    retentionSeconds: secondsOf(retentionMs),
    waitingJobs: textOf(limits.waitingJobs),
    concurrencyKey: concurrency?.key ?? "",
    concurrencyLimit: textOf(concurrency?.limit),
    rateCalls: textOf(rateLimit?.limit),
    rateSeconds: rateLimit === undefined ? "" : secondsOf(rateLimit.perMs),
    variables: Object.entries(env).map(([name, value]) =>
      typeof value === "string" ? { name, kind: "value", value } : { name, kind: "secret", value: value.secret }
    )
  }
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** The contract is imported for its types alone, because the console does not load its schemas. */
export const isSecretName = (text: string): text is SecretName => /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(text)

/** What is wrong with each variable; undefined if nothing is. The platform permits every name, so a variable that the endpoint has keeps its name. */
const variableProblems = (
  variables: ReadonlyArray<VariableDraft>,
  env: Endpoint["env"]
): ReadonlyArray<string | undefined> | undefined => {
  const problems = variables.map(({ kind, name, value }, index) => {
    if (!NAME.test(name) && !Object.hasOwn(env, name)) {
      return "Write a name of letters, digits and _, which does not begin with a digit."
    }
    if (variables.findIndex((other) => other.name === name) < index) return "Another variable has this name."
    return kind === "secret" && !isSecretName(value) ? "Write the name of a secret." : undefined
  })
  return problems.some((problem) => problem !== undefined) ? problems : undefined
}

/** What is wrong with the text of a number; undefined if nothing is. */
export const problemWith = (text: string, { from, isWhole = false, to }: Range): string | undefined => {
  const value = Number(text)
  const isValid = text.trim() !== "" && value >= from && value <= to && (!isWhole || Number.isInteger(value))
  return isValid ? undefined : `Write a ${isWhole ? "whole number" : "number"} from ${from} to ${to}.`
}

/** The fields with a range. */
const NUMBERS = [
  "min",
  "max",
  "idleSeconds",
  "scalerValue",
  "executionSeconds",
  "ttlSeconds",
  "maxAttempts",
  "leaseSeconds",
  "retentionSeconds",
  "waitingJobs",
  "concurrencyLimit",
  "rateCalls",
  "rateSeconds"
] as const

const problemsOf = (draft: SettingsDraft, { env, source, workers }: Endpoint): SettingsProblems => {
  const problems: { -readonly [field in TextSetting]?: string } = {}
  const ranges = rangesOf(draft, source.type)
  for (const field of NUMBERS) {
    const isEmpty = OPTIONAL.has(field) && draft[field].trim() === ""
    const problem = isEmpty ? undefined : problemWith(draft[field], ranges[field])
    if (problem !== undefined) problems[field] = problem
  }
  for (const [one, other] of [["concurrencyKey", "concurrencyLimit"], ["rateCalls", "rateSeconds"]] as const) {
    if (draft[one].trim() === "" && draft[other].trim() !== "") problems[one] = "Write both, or neither."
    if (draft[one].trim() !== "" && draft[other].trim() === "") problems[other] = "Write both, or neither."
  }
  if (problems.min === undefined && problems.max === undefined) {
    const warm = Math.max(0, ...(workers.warm ?? []).map(({ min }) => min))
    if (Number(draft.min) > Number(draft.max)) problems.min = "Write at most the maximum."
    else if (warm > Number(draft.max)) problems.max = `Write at least ${warm}, which a warm time needs.`
  }
  const variables = variableProblems(draft.variables, env)
  return variables === undefined ? problems : { ...problems, variables }
}

/** The current settings of an endpoint. */
export const currentOf = (endpoint: Endpoint): EndpointSpec => {
  const { canary: _canary, createdAt: _createdAt, previousRelease: _previous, release: _release, ...spec } = endpoint
  return spec
}

/** A maximum for callers that was the value itself follows the value. A higher one is kept if it still is one. */
const limitOf = (limit: number, before: number, after: number): number => limit === before ? after : Math.max(limit, after)

/** The members of a spec that the form may leave out. */
const optionalSettings = (
  { concurrencyKey, concurrencyLimit, rateCalls, rateSeconds }: SettingsDraft,
  { rateLimit }: EndpointSpec
): Pick<EndpointSpec, "concurrency" | "rateLimit"> => ({
  ...(concurrencyKey.trim() === "" ? {} : { concurrency: { key: concurrencyKey.trim(), limit: Number(concurrencyLimit) } }),
  ...(rateCalls.trim() === ""
    ? {}
    : { rateLimit: { ...rateLimit, limit: Number(rateCalls), perMs: millisOf(rateSeconds) } })
})

/**
 * The spec to deploy, or what is wrong with each field. Settings that the form does not show, such as the source, keep their values.
 */
export const settingsSpecOf = (
  draft: SettingsDraft,
  endpoint: Endpoint
): { readonly spec: EndpointSpec } | { readonly problems: SettingsProblems } => {
  const problems = problemsOf(draft, endpoint)
  if (Object.keys(problems).length > 0) return { problems }
  const { concurrency: _concurrency, rateLimit: _rateLimit, ...kept } = currentOf(endpoint)
  const { waitingJobs: _waitingJobs, ...keptLimits } = kept.limits
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
        ...keptLimits,
        ...(draft.waitingJobs.trim() === "" ? {} : { waitingJobs: Number(draft.waitingJobs) }),
        executionTimeoutMs: limitOf(kept.limits.executionTimeoutMs, kept.executionTimeoutMs, executionTimeoutMs),
        ttlMs: limitOf(kept.limits.ttlMs, kept.ttlMs, ttlMs)
      },
      maxAttempts: Number(draft.maxAttempts),
      leaseMs: millisOf(draft.leaseSeconds),
      retentionMs: millisOf(draft.retentionSeconds),
      ...optionalSettings(draft, endpoint),
      env: Object.fromEntries(
        draft.variables.flatMap(({ kind, name, value }): ReadonlyArray<readonly [string, EndpointSpec["env"][string]]> =>
          kind === "value" ? [[name, value]] : isSecretName(value) ? [[name, { secret: value }]] : []
        )
      )
    }
  }
}

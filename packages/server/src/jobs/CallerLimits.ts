/**
 * Finds the options of a request that exceed the limits that the endpoint's operator has set (docs/spec/endpoints.md#limits-for-callers).
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { Policy } from "@stint/contract/Job"
import type { BodyIssue } from "../http/RequestBody.ts"

/** The requested options. */
export interface RequestedOptions {
  readonly policy?: Policy | undefined
  readonly priority?: number | undefined
  /** Milliseconds since 1970. */
  readonly startAt?: number | undefined
  readonly startAfterMs?: number | undefined
}

/** The hint for a request that exceeds a limit. */
export const LIMIT_HINT = "Ask for less, or omit the member. The platform's operator can raise the `limits` of the endpoint."

const NONE: ReadonlyArray<BodyIssue> = []

/** The values that are above the endpoint's limits. */
export const callerLimitIssues = (
  { limits }: Pick<Endpoint, "limits">,
  { policy, priority, startAfterMs, startAt }: RequestedOptions
): ReadonlyArray<BodyIssue> => {
  if (policy === undefined && priority === undefined && startAt === undefined && startAfterMs === undefined) return NONE
  if (startAt !== undefined && startAfterMs !== undefined) {
    return [{ path: ["startAfterMs"], message: "cannot be combined with startAt" }]
  }
  const asked: ReadonlyArray<readonly [path: BodyIssue["path"], value: number | undefined, most: number, unit: string]> = [
    [["policy", "executionTimeout"], policy?.executionTimeout, limits.executionTimeoutMs, " ms"],
    [["policy", "ttl"], policy?.ttl, limits.ttlMs, " ms"],
    [["policy", "retry", "maxAttempts"], policy?.retry?.maxAttempts, limits.maxAttempts, ""],
    [["priority"], priority, limits.priority, ""],
    [["startAfterMs"], startAfterMs, limits.startDelayMs, " ms"],
    [["startAt"], startAt === undefined ? undefined : startAt - Date.now(), limits.startDelayMs, " ms from now"]
  ]
  return asked.flatMap(([path, value, most, unit]) =>
    value !== undefined && value > most
      ? [{ path, message: `${value}${unit} is above the maximum of this endpoint, ${most}${unit}` }]
      : []
  )
}

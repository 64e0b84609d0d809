/**
 * Which endpoints need attention, and why.
 */
import type { EndpointOverview } from "@stint/contract/OverviewApi"
import { counted, duration, percent } from "../format/Format.ts"

/** `bad`: jobs do not run. `warn`: needs attention soon. `ok`: nothing to do. */
export type Level = "bad" | "warn" | "ok"

/** The state of an endpoint, for display. */
export interface EndpointHealth {
  readonly level: Level
  readonly word: string
  /** What is wrong, with numbers; undefined if nothing is. */
  readonly reason: string | undefined
}

/** A job that has waited this long needs attention: the default scaler adds a worker after 4 s. */
const OLD_MILLIS = 60_000

/** An endpoint needs attention when it has at least this many failures and at least this share of failures. */
const MANY_FAILURES = 5
const FAILURE_SHARE = 0.1

/** How long the oldest ready job has waited; 0 without one. */
export const oldestWait = ({ oldestQueuedAt }: EndpointOverview, now: number): number =>
  oldestQueuedAt === undefined ? 0 : Math.max(0, now - oldestQueuedAt)

/** The state of an endpoint. */
export const healthOf = (endpoint: EndpointOverview, now: number): EndpointHealth => {
  const { jobs, problem, source, workers } = endpoint
  const live = workers.idle + workers.running + workers.initializing + workers.draining
  const waits = `${counted(jobs.waiting, "job waits", "jobs wait")}, the oldest for ${duration(oldestWait(endpoint, now))}`
  if (workers.unhealthy + workers.throttled > 0) {
    const word = workers.unhealthy > 0 ? "Workers fail" : "No capacity"
    const cause = problem?.split("\n", 1)[0] ?? "a worker cannot be started"
    return {
      level: jobs.waiting > 0 || live === 0 ? "bad" : "warn",
      word,
      reason: jobs.waiting > 0 ? `${cause} · ${waits}` : cause
    }
  }
  if (workers.max === 0) {
    return jobs.waiting > 0
      ? { level: "bad", word: "Paused", reason: `${waits}, but workers.max is 0` }
      : { level: "ok", word: "Paused", reason: undefined }
  }
  if (source === "external" && live === 0 && jobs.waiting > 0) {
    return { level: "bad", word: "No worker", reason: `${waits}, and no external worker is connected` }
  }
  if (oldestWait(endpoint, now) >= OLD_MILLIS) return { level: "warn", word: "Slow", reason: waits }
  const ended = jobs.completed + jobs.failed
  if (jobs.failed >= MANY_FAILURES && jobs.failed >= ended * FAILURE_SHARE) {
    return {
      level: "warn",
      word: "Errors",
      reason: `${counted(jobs.failed, "job")} of ${ended} failed (${percent(jobs.failed, ended)})`
    }
  }
  if (jobs.running > 0) return { level: "ok", word: "Running", reason: undefined }
  if (workers.initializing > 0) return { level: "ok", word: "Starting", reason: undefined }
  return { level: "ok", word: live > 0 ? "Ready" : "Idle", reason: undefined }
}

const RANK: Readonly<Record<Level, number>> = { bad: 0, warn: 1, ok: 2 }

/** An endpoint with its state. */
export interface RankedEndpoint {
  readonly endpoint: EndpointOverview
  readonly health: EndpointHealth
}

/** All endpoints: first those with problems, then by name. */
export const rankEndpoints = (endpoints: ReadonlyArray<EndpointOverview>, now: number): ReadonlyArray<RankedEndpoint> =>
  endpoints.map((endpoint) => ({ endpoint, health: healthOf(endpoint, now) })).toSorted((a, b) =>
    RANK[a.health.level] - RANK[b.health.level] || (a.endpoint.id < b.endpoint.id ? -1 : 1)
  )

/**
 * The last hour of the endpoints, as the API shows it. `@stint/metrics` takes the samples; a platform without it has none.
 */
import type { EndpointHistory, History } from "@stint/contract/HistoryApi"
import * as Context from "effect/Context"

/** Default: no samples. */
export const EndpointHistories = Context.Reference<{
  /** When the first sample was taken; null before. */
  readonly since: () => number | null
  /** Whether other nodes share the jobs, so that the samples are only a part. */
  readonly isShared: () => boolean
  /** The rates of the endpoints that have not been idle since the start. */
  readonly rates: () => History["endpoints"]
  /** The samples of an endpoint in the last minutes. */
  readonly of: (endpoint: string, minutes: number) => Omit<EndpointHistory, "id" | "since" | "shared">
}>("@stint/server/EndpointHistories", {
  defaultValue: () => ({ since: () => null, isShared: () => false, rates: () => [], of: () => NONE })
})

const NONE: Omit<EndpointHistory, "id" | "since" | "shared"> = {
  at: [],
  waiting: [],
  delayed: [],
  running: [],
  oldest: [],
  submitted: [],
  completed: [],
  failed: [],
  cancelled: [],
  waits: { p50: [], p90: [], p99: [] },
  executions: { p50: [], p90: [], p99: [] },
  starts: { count: [], pull: [], create: [], start: [], setup: [], prepare: [] },
  workers: { running: [], idle: [], initializing: [], draining: [], throttled: [], unhealthy: [] }
}

/**
 * The workers of all endpoints. The platform lists the workers of one endpoint at a time, and counts the workers of all endpoints. So the
 * page queries only endpoints that have a worker in the chosen state, and only a limited number of them.
 */
import type { EndpointDetail, EndpointOverview, Overview, WorkerOverview } from "@stint/contract/OverviewApi"
import * as Api from "../api/Api.ts"
import { textAt } from "../format/AddressQuery.ts"

/** The states; those that need attention come first. */
export const WORKER_STATES = [
  ["unhealthy", "Unhealthy"],
  ["throttled", "No capacity"],
  ["running", "Running"],
  ["draining", "Draining"],
  ["initializing", "Starting"],
  ["idle", "Idle"]
] as const satisfies ReadonlyArray<readonly [WorkerOverview["state"], string]>

/** A worker, and its endpoint. */
export interface EndpointWorker {
  readonly endpoint: string
  readonly worker: WorkerOverview
}

/**
 * What an operator can request for a worker. The same request cannot be made twice. An unhealthy worker has exited, or the platform ends it; a
 * throttled one was never started.
 */
export const removable = ({ leaving, state }: WorkerOverview): ReadonlyArray<"drain" | "stop"> =>
  state === "unhealthy" || state === "throttled" || leaving === "stop"
    ? []
    : state === "draining"
    ? ["stop"]
    : ["drain", "stop"]

/** How many of its slots a worker uses, as "2 of 4"; undefined when its slots are not known. */
export const slotsText = ({ jobs, slots }: WorkerOverview): string | undefined =>
  slots === undefined ? undefined : `${jobs.length} of ${slots}`

/** What a drain or stop will do to a worker, shown before the operator confirms. */
export const removalText = (how: "drain" | "stop", { external, jobs }: WorkerOverview): string => {
  const its = jobs.length === 0 ? "It runs no job." : jobs.length === 1 ? "It runs 1 job." : `It runs ${jobs.length} jobs.`
  const next = external === true
    ? "The platform did not start it: end its process yourself."
    : "The platform starts another one if the endpoint needs it."
  return how === "drain"
    ? `${its} It takes no more jobs, and ${external === true ? "keeps running" : "exits"}${
      jobs.length === 0 ? "" : " after its current ones"
    }. ${next}`
    : `${its} ${
      external === true ? "It is told to stop its jobs and takes no more." : "It is killed at once."
    } Each of its jobs loses an attempt: it runs again, or fails if no attempt is left. ${next}`
}

/** Which workers are shown, as stored in the address. An empty text does not filter. */
export interface WorkerFilter {
  readonly endpoint: string
  readonly state: WorkerOverview["state"] | ""
}

/** Reads the filter from the parsed query of the address. An unknown state is ignored. */
export const workerFilterOf = (search: unknown): WorkerFilter => ({
  endpoint: textAt(search, "endpoint"),
  state: WORKER_STATES.find(([state]) => state === textAt(search, "state"))?.[0] ?? ""
})

/** The number of an endpoint's workers, in one state or in all states. */
const workersOf = ({ workers }: EndpointOverview, state: WorkerFilter["state"]): number =>
  state === "" ? WORKER_STATES.reduce((sum, [one]) => sum + workers[one], 0) : workers[state]

/** The number of workers, in one state or in all states, of one endpoint or of all endpoints. */
export const countWorkers = ({ endpoints }: Overview, endpoint: string, state: WorkerFilter["state"]): number =>
  endpoints.reduce((sum, one) => endpoint === "" || one.id === endpoint ? sum + workersOf(one, state) : sum, 0)

/** The maximum number of workers that the platform starts, for the chosen endpoint or for all endpoints. External workers are not limited. */
export const mostWorkers = ({ endpoints }: Overview, endpoint: string): number =>
  endpoints.reduce((sum, one) => endpoint === "" || one.id === endpoint ? sum + (one.workers.max ?? 0) : sum, 0)

/** The endpoints with matching workers: first those with failing workers, then those with running ones. */
export const endpointsOf = ({ endpoints }: Overview, { endpoint, state }: WorkerFilter): ReadonlyArray<string> =>
  endpoints.filter((one) => (endpoint === "" || one.id === endpoint) && workersOf(one, state) > 0).toSorted((a, b) =>
    b.workers.unhealthy + b.workers.throttled - a.workers.unhealthy - a.workers.throttled ||
    b.workers.running - a.workers.running || (a.id < b.id ? -1 : 1)
  ).map(({ id }) => id)

/** The maximum number of endpoints that are queried. */
export const MOST_ENDPOINTS = 24

/** The number of concurrent requests, limited so that the page's other requests need not wait. */
const AT_ONCE = 4

/** The maximum number of workers that are shown. */
export const MOST_WORKERS = 500

/** The matching workers, ordered by state and endpoint. */
export const matching = (details: ReadonlyArray<EndpointDetail>, { state }: WorkerFilter): ReadonlyArray<EndpointWorker> => {
  const rank = ({ worker }: EndpointWorker) => WORKER_STATES.findIndex(([one]) => one === worker.state)
  return details.flatMap(({ id, list }) =>
    list.flatMap((worker) => state === "" || worker.state === state ? [{ endpoint: id, worker }] : [])
  ).toSorted((a, b) =>
    rank(a) - rank(b) ||
    (a.endpoint < b.endpoint ? -1 : a.endpoint > b.endpoint ? 1 : a.worker.firstSeenAt - b.worker.firstSeenAt)
  )
}

/** The listed workers, and what is known about the others. */
export interface WorkerList {
  readonly overview: Overview
  readonly workers: ReadonlyArray<EndpointWorker>
  /** The number of endpoints with matching workers that were not queried. */
  readonly left: number
}

const unlessRemoved = async (endpoint: string, signal: AbortSignal | undefined): Promise<ReadonlyArray<EndpointDetail>> => {
  try {
    return [await Api.endpointDetail(endpoint, signal)]
  } catch (error) {
    // The endpoint was removed after the count.
    if (error instanceof Api.ApiError && error.status === 404) return []
    throw error
  }
}

/** Reads the workers. Fails when one of the requests fails, because a partial list would look complete. */
export const readWorkers = async (filter: WorkerFilter, signal?: AbortSignal): Promise<WorkerList> => {
  const overview = await Api.overview(signal)
  const endpoints = endpointsOf(overview, filter)
  const asked = endpoints.slice(0, MOST_ENDPOINTS)
  const details: Array<EndpointDetail> = []
  for (let first = 0; first < asked.length; first += AT_ONCE) {
    const answers = await Promise.all(asked.slice(first, first + AT_ONCE).map((endpoint) => unlessRemoved(endpoint, signal)))
    details.push(...answers.flat())
  }
  return { overview, workers: matching(details, filter), left: endpoints.length - asked.length }
}

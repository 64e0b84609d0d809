/**
 * The traffic of an endpoint, from its stored jobs.
 *
 * ```
 *   pages of the job list, newest first --> jobs that ran --> arrivals
 *   the jobs that waited longest        --> their explanations --> the median time from a worker's start until it took a job
 * ```
 */
import type { Arrival } from "@stint/autoscaler/Simulation"
import type { ListedJob } from "@stint/contract/JobList"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { figureOf } from "../bench/Figures.ts"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"

/** The maximum number of jobs that are read. */
export const MAX_JOBS = 20_000

/** Jobs in a page of the job list. */
const PAGE = 200

/** The number of jobs whose explanations are read. */
const EXPLAINED = 40

/** How many explanations are read at the same time. */
const CONCURRENCY = 4

/** The jobs of a period that ran. */
export interface Traffic {
  readonly arrivals: ReadonlyArray<Arrival>
  /** The time of the first arrival, in milliseconds since 1970. Arrivals count from there. */
  readonly from: number
  /** The period has more jobs; only the newest {@link MAX_JOBS} are here. */
  readonly isCut: boolean
  readonly jobs: ReadonlyArray<ListedJob>
}

/** Reads the jobs of a period. Jobs that have not ended, and jobs that no worker ran, are left out. */
export const read = Effect.fnUntraced(function*(
  endpoint: string,
  period: { readonly since: number; readonly until: number | undefined }
) {
  const jobs: Array<ListedJob> = []
  let cursor: string | null = null
  let listed = 0
  do {
    const page = yield* call((api) =>
      api.jobs.requests({
        params: { endpoint },
        query: {
          createdAfter: period.since,
          ...(period.until === undefined ? {} : { createdBefore: period.until }),
          limit: PAGE,
          ...(cursor === null ? {} : { cursor })
        }
      })
    )
    listed += page.requests.length
    jobs.push(...page.requests.filter(({ executionTime, finishedAt }) => executionTime !== undefined && finishedAt !== undefined))
    ;({ cursor } = page)
  } while (cursor !== null && listed < MAX_JOBS)
  if (jobs.length === 0) {
    return yield* new CliFailure({
      message: `No job of endpoint ${endpoint} ended in this period.`,
      hint: "Choose a longer period with --since, for example --since 7d."
    })
  }
  const from = jobs.reduce((least, { createdAt }) => Math.min(least, createdAt), Infinity)
  const arrivals = jobs
    .map(({ createdAt, executionTime }) => ({ at: createdAt - from, duration: executionTime ?? 0 }))
    .sort((one, other) => one.at - other.at)
  return { arrivals, from, isCut: cursor !== null, jobs } satisfies Traffic
})

/** The median cold start of the jobs, in milliseconds: from the request of their worker until they were taken. None if no job started a worker. */
export const coldStartOf = Effect.fnUntraced(function*(endpoint: string, { jobs }: Traffic) {
  const slowest = jobs.toSorted((one, other) => (other.delayTime ?? 0) - (one.delayTime ?? 0)).slice(0, EXPLAINED)
  const explained = yield* Effect.forEach(
    slowest,
    ({ id }) => call((api) => api.jobs.status({ params: { endpoint, id }, query: { explain: "true" } })),
    { concurrency: CONCURRENCY }
  )
  const starts = explained.flatMap(({ explain }) => {
    const parts = explain?.wait?.parts ?? []
    const started = parts.filter(({ phase }) => phase !== "queue")
    return parts.some(({ phase }) => phase === "start") ? [started.reduce((sum, { millis }) => sum + millis, 0)] : []
  })
  const figure = figureOf(starts)
  return figure === undefined ? Option.none() : Option.some({ millis: Math.round(figure.median), count: starts.length })
})

/**
 * The arrivals at another load: 2 is twice as many jobs, 0.5 half of them. A job's copies arrive between it and the next one.
 */
export const atLoad = (arrivals: ReadonlyArray<Arrival>, load: number): ReadonlyArray<Arrival> =>
  arrivals.flatMap(({ at, duration }, index) => {
    const copies = Math.floor(load * (index + 1)) - Math.floor(load * index)
    const gap = (arrivals[index + 1]?.at ?? at) - at
    return Array.from({ length: copies }, (_, copy) => ({ at: at + Math.floor(gap * copy / copies), duration }))
  })

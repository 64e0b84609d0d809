/**
 * The state of the endpoints, for dashboards.
 */
import { Api } from "@stint/contract/Api"
import type { Endpoint } from "@stint/contract/Endpoint"
import { CurrentViewer, type EndpointOverview, MAX_LISTED_WORKERS } from "@stint/contract/OverviewApi"
import { Models, type ModelState } from "@stint/models/Models"
import { JobQueue } from "@stint/queue/JobQueue"
import { WorkerRegistry, type WorkerState, type WorkerStatus } from "@stint/queue/WorkerRegistry"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { Depth } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import { endpointFinder, mapStoreErrors } from "../http/QueueProblems.ts"
import { REASON_LENGTH, workerOf } from "./WorkerView.ts"

const overviewOf = (
  { id, source, workers: { max } }: Endpoint,
  depth: Depth,
  workers: ReadonlyArray<WorkerStatus>,
  model: ModelState | undefined
): EndpointOverview => {
  const count = (state: WorkerState) => workers.filter((worker) => worker.state === state).length
  const problem = workers.find(({ reason }) => reason !== null)?.reason ?? (model?._tag === "Failed" ? model.reason : undefined)
  return {
    id,
    source: source.type,
    jobs: {
      waiting: depth.waiting,
      delayed: depth.delayed,
      running: depth.running,
      completed: depth.completed,
      failed: depth.failed
    },
    ...(depth.oldestQueuedAt === null ? {} : { oldestQueuedAt: depth.oldestQueuedAt }),
    workers: {
      max: source.type === "external" ? null : max,
      idle: count("idle"),
      initializing: count("initializing"),
      running: count("running"),
      draining: count("draining"),
      throttled: count("throttled"),
      unhealthy: count("unhealthy")
    },
    ...(problem === undefined ? {} : { problem: problem.slice(0, REASON_LENGTH) })
  }
}

const ORDER: ReadonlyArray<WorkerState> = ["unhealthy", "throttled", "running", "draining", "initializing", "idle"]

/** The handlers. */
export const layer = HttpApiBuilder.group(
  Api,
  "overview",
  Effect.fnUntraced(function*(handlers) {
    const endpoints = yield* EndpointStore
    const queue = yield* JobQueue
    const registry = yield* WorkerRegistry
    const models = yield* Models
    const findEndpoint = yield* endpointFinder

    const read = Effect.fnUntraced(function*(endpoint: Endpoint) {
      const workers = yield* registry.listAll(endpoint.id)
      return {
        workers,
        overview: overviewOf(endpoint, yield* mapStoreErrors(queue.depth(endpoint.id)), workers, models.stateOf(endpoint))
      }
    })

    return handlers
      .handle(
        "overview",
        Effect.fnUntraced(function*() {
          const { endpoints: permitted } = yield* CurrentViewer
          const all = yield* mapStoreErrors(endpoints.list)
          const seen = all.filter(({ id }) => permitted === "all" || permitted.includes(id))
          return {
            endpoints: yield* Effect.forEach(seen, (endpoint) => Effect.map(read(endpoint), ({ overview }) => overview), {
              concurrency: "unbounded"
            })
          }
        })
      )
      .handle(
        "overviewOfEndpoint",
        Effect.fnUntraced(function*({ params }) {
          const { endpoints: permitted } = yield* CurrentViewer
          const { overview, workers } = yield* read(yield* findEndpoint(params.endpoint, permitted === "all"))
          const list = workers.toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state))
          return { ...overview, list: list.slice(0, MAX_LISTED_WORKERS).map(workerOf) }
        })
      )
  })
)

/**
 * The jobs API on top of the queue (docs/spec/jobs-api.md#operations).
 *
 * Most handlers are raw, because they read and write bodies as text.
 */
import { Api } from "@stint/contract/Api"
import { CurrentEndpoint } from "@stint/contract/Authorization"
import type { Endpoint } from "@stint/contract/Endpoint"
import type { JsonText } from "@stint/contract/Json"
import { Models } from "@stint/models/Models"
import { decodeEventCursor } from "@stint/queue/JobEventCursor"
import { JobQueue } from "@stint/queue/JobQueue"
import { NodeUnknown, RunQueue } from "@stint/queue/RunQueue"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { Releases } from "@stint/releases/Releases"
import { EndpointStore } from "@stint/store/EndpointStore"
import { isParked } from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import type { RunReport } from "@stint/store/RunStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { json, trackedJson } from "../http/JsonResponse.ts"
import { clampWait, Limits } from "../http/Limits.ts"
import { invalidEventId, mapJobErrors, mapListErrors, mapLookupErrors, mapStoreErrors } from "../http/QueueProblems.ts"
import { MOST_STEPS } from "../runs/ParkedRun.ts"
import { nodeUnknown } from "../runs/RunProblems.ts"
import { openStep } from "../runs/StepList.ts"
import { filterKinds, response as eventsResponse } from "./JobEventStream.ts"
import { explain } from "./JobExplainer.ts"
import { searchEndpoint } from "./JobSearchRequest.ts"
import { extendedJobJson, jobJson, jobListItem, receiptJson, streamJson } from "./JobView.ts"
import { SubmitOperations } from "./SubmitOperations.ts"
import { submitter } from "./SubmitRequest.ts"
import { TraceLinks } from "./TraceLinks.ts"

/** Whether `?explain` or `?input` is set: without a value, or with any value except "false" and "0". */
const isSet = (value: string | undefined): boolean => value !== undefined && value !== "false" && value !== "0"

/** The last event that a client received. Browsers send it in a header, which may be empty. */
export const lastEventIdOf = (
  request: HttpServerRequest.HttpServerRequest,
  lastEventId: string | undefined
): string | undefined => request.headers["last-event-id"] || lastEventId || undefined

/** The handlers of the jobs API. */
export const layer = HttpApiBuilder.group(
  Api,
  "jobs",
  Effect.fnUntraced(function*(handlers) {
    const queue = yield* JobQueue
    const endpoints = yield* EndpointStore
    const registry = yield* WorkerRegistry
    const releases = yield* Releases
    const models = yield* Models
    const runs = yield* RunQueue
    const limits = yield* Limits
    const traceOf = yield* TraceLinks
    const { run, runsync } = yield* SubmitOperations

    const receipt = (job: JobHead) => json(receiptJson(job))

    /** The rollout in progress, or the last rollout if it failed. */
    const rollOf = Effect.fnUntraced(function*({ canary, id, previousRelease, release }: Endpoint) {
      if (release === undefined) return undefined
      if (canary !== undefined) return { state: "canary", release: canary.release, serving: release } as const
      if (previousRelease !== undefined) return { state: "rolling", release, serving: previousRelease } as const
      const [latest] = yield* releases.list(id, { limit: 1 })
      if (latest?.state !== "failed") return undefined
      const { number, reason } = latest
      return { state: "failed", release: number, serving: release, ...(reason === undefined ? {} : { reason }) } as const
    })

    /** The record of the job's run. Undefined if the job is not a run, or has been removed in the meantime. */
    const runOf = ({ endpoint, id }: JobHead) =>
      mapStoreErrors(Effect.catchTag(runs.get(endpoint, id), "JobMissing", () => Effect.succeed(undefined)))

    /** What a parked run waits for. */
    const parkedRun = Effect.fnUntraced(function*(found: RunReport) {
      const { endpoint, id } = found.job
      const open = yield* mapStoreErrors(runs.open(endpoint, id, MOST_STEPS + 1))
      const { definition, held, phase } = found.run
      return { definition, phase, held, steps: open.slice(0, MOST_STEPS).map(openStep), more: open.length > MOST_STEPS }
    })

    const explained = Effect.fnUntraced(function*(endpoint: Endpoint, id: string, input: JsonText | undefined) {
      const { ahead, job, key } = yield* mapLookupErrors(queue.position(endpoint.id, id))
      const depth = yield* mapStoreErrors(queue.depth(endpoint.id))
      const { canary } = endpoint
      const all = yield* registry.listAll(endpoint.id)
      // A worker of a canary may be idle while jobs wait for the other workers.
      const workers = canary === undefined ?
        all :
        all.filter(({ id, state }) => state !== "idle" || registry.releaseOf(endpoint.id, id) !== canary.release)
      const now = yield* Clock.currentTimeMillis
      const workerStart = {
        start: job.worker === null ? undefined : registry.startOf(endpoint.id, job.worker),
        knownSince: registry.createdAt
      }
      const roll = job.status === "IN_QUEUE" ? yield* mapStoreErrors(rollOf(endpoint)) : undefined
      const model = models.stateOf(endpoint)
      const run = job.attempt === 0 ? undefined : yield* runOf(job)
      const parked = run !== undefined && isParked(job) ? yield* parkedRun(run) : undefined
      const facts = {
        job,
        ahead,
        key,
        isRun: run !== undefined,
        run: parked,
        depth,
        endpoint,
        model,
        workers,
        workerStart,
        batch: all.find((worker) => worker.id === job.worker)?.batch,
        now,
        roll
      }
      const trace = yield* mapStoreErrors(traceOf(job))
      const explanation = trace === undefined ? explain(facts) : { ...explain(facts), trace }
      return yield* trackedJson(extendedJobJson(job, endpoint, { explanation, input }))
    })

    const status = Effect.fnUntraced(function*({ params, query }: {
      readonly params: { readonly endpoint: string; readonly id: string }
      readonly query: { readonly explain?: string; readonly input?: string }
    }) {
      const endpoint = yield* CurrentEndpoint
      const input = isSet(query.input) ? yield* mapLookupErrors(queue.input(endpoint.id, params.id)) : undefined
      if (isSet(query.explain)) return yield* explained(endpoint, params.id, input)
      const job = yield* mapLookupErrors(queue.get(endpoint.id, params.id))
      return yield* trackedJson(input === undefined ? jobJson(job, endpoint) : extendedJobJson(job, endpoint, { input }))
    })

    const statusSync = Effect.fnUntraced(function*({ params, query }: {
      readonly params: { readonly endpoint: string; readonly id: string }
      readonly query: { readonly wait?: string }
    }) {
      const endpoint = yield* CurrentEndpoint
      const wait = clampWait(query.wait, limits.syncWaitMs, limits)
      return yield* trackedJson(jobJson(yield* mapLookupErrors(queue.awaitEnd(endpoint.id, params.id, wait)), endpoint))
    })

    const stream = Effect.fnUntraced(function*({ params, query }: {
      readonly params: { readonly endpoint: string; readonly id: string }
      readonly query: { readonly wait?: string }
    }) {
      const endpoint = yield* CurrentEndpoint
      const wait = clampWait(query.wait, limits.streamWaitMs, limits)
      const { chunks, job, more } = yield* mapLookupErrors(queue.drain(endpoint.id, params.id, wait))
      return yield* trackedJson(streamJson(job, endpoint, chunks, more))
    })

    return handlers
      .handleRaw(
        "run",
        Effect.fnUntraced(function*({ request }) {
          return yield* run(yield* CurrentEndpoint, yield* submitter, request)
        })
      )
      .handleRaw(
        "runsync",
        Effect.fnUntraced(function*({ query, request }) {
          return yield* runsync(yield* CurrentEndpoint, yield* submitter, request, query.wait)
        })
      )
      .handleRaw("status", status)
      .handleRaw("statusByPost", status)
      .handleRaw("statusSync", statusSync)
      .handleRaw("statusSyncByPost", statusSync)
      .handleRaw("stream", stream)
      .handleRaw("streamByPost", stream)
      .handleRaw(
        "events",
        Effect.fnUntraced(function*({ params, query, request }) {
          const endpoint = yield* CurrentEndpoint
          const lastEventId = lastEventIdOf(request, query.lastEventId)
          const options = { logs: query.events?.includes("log") ?? true }
          // Check before the stream starts, while an error status can still be sent.
          const job = yield* mapLookupErrors(queue.get(endpoint.id, params.id))
          const after = lastEventId === undefined ? undefined : decodeEventCursor(lastEventId)
          if (lastEventId !== undefined && after === undefined) return yield* invalidEventId(lastEventId)
          if (after !== undefined && (yield* mapStoreErrors(queue.isCaughtUp(job, after, options)))) {
            return HttpServerResponse.empty({ status: 204 })
          }
          const followed = queue.follow(endpoint.id, job.id, after, options)
          return eventsResponse(filterKinds(followed, query.events), endpoint, limits.heartbeatMs)
        })
      )
      .handle(
        "requests",
        Effect.fnUntraced(function*({ query }) {
          const endpoint = yield* CurrentEndpoint
          const { cursor, jobs } = query.query === undefined
            ? yield* mapListErrors(queue.list(endpoint.id, query))
            : yield* searchEndpoint(queue, endpoint.id, { ...query, query: query.query })
          return { requests: jobs.map((job) => jobListItem(job, endpoint)), cursor }
        })
      )
      .handleRaw(
        "cancel",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* CurrentEndpoint
          return receipt(yield* mapLookupErrors(queue.cancel(endpoint.id, params.id)))
        })
      )
      .handleRaw(
        "retry",
        Effect.fnUntraced(function*({ params, query }) {
          const endpoint = yield* CurrentEndpoint
          if (query.from === undefined) return receipt(yield* mapJobErrors(queue.retry(endpoint.id, params.id)))
          const retried = runs.retryFrom(endpoint.id, params.id, query.from).pipe(
            Effect.catchTag("NodeUnknown", (error) => Effect.succeed(error))
          )
          const result = yield* mapJobErrors(retried)
          return result instanceof NodeUnknown ? yield* nodeUnknown(result, endpoint.id) : receipt(result)
        })
      )
      .handle(
        "purgeQueue",
        Effect.fnUntraced(function*() {
          const endpoint = yield* CurrentEndpoint
          return { removed: yield* mapStoreErrors(queue.purge(endpoint.id)), status: "completed" as const }
        })
      )
      .handle(
        "schema",
        Effect.fnUntraced(function*() {
          const { id } = yield* CurrentEndpoint
          return yield* mapStoreErrors(endpoints.schema(id))
        })
      )
      .handle(
        "health",
        Effect.fnUntraced(function*() {
          const endpoint = yield* CurrentEndpoint
          const depth = yield* mapStoreErrors(queue.depth(endpoint.id))
          const workers = yield* registry.listAll(endpoint.id)
          const count = (...states: ReadonlyArray<string>) => workers.filter((worker) => states.includes(worker.state)).length
          return {
            jobs: {
              completed: depth.completed,
              failed: depth.failed,
              inProgress: depth.running,
              inQueue: depth.waiting + depth.delayed,
              retried: depth.retried
            },
            ...(endpoint.limits.waitingJobs === undefined ? {} : { limits: { waitingJobs: endpoint.limits.waitingJobs } }),
            workers: {
              idle: count("idle"),
              initializing: count("initializing"),
              ready: count("idle"),
              running: count("running", "draining"),
              throttled: count("throttled"),
              unhealthy: count("unhealthy")
            }
          }
        })
      )
  })
)

/**
 * The worker API over the queue (wire-facts 5): tolerant of how existing SDKs call, strict about whose job it is.
 */
import { Api } from "@stint/contract/Api"
import type { EndpointId } from "@stint/contract/Ids"
import { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { explain, InvalidRequest } from "@stint/contract/Problem"
import { Ping, pingJobs } from "@stint/contract/WorkerProtocol"
import { type Holder, JobQueue } from "@stint/queue/JobQueue"
import type { JobRecord } from "@stint/queue/JobRecord"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Schema from "effect/Schema"
import { takenText } from "./JobView.ts"
import { bytesInWords, Limits } from "./Limits.ts"
import { endpointFinder, jobProblem, storeProblem } from "./QueueProblems.ts"
import { decoder, readJson } from "./RequestBody.ts"
import { splitTail, type Tail } from "./UrlTail.ts"

/** The body of job-done. Its values came out of `JSON.parse`, so only its shape is in question. */
const decodeDone = decoder(
  Schema.Struct({
    output: Schema.optionalKey(Schema.Unknown),
    error: Schema.optionalKey(Schema.Unknown),
    stopPod: Schema.optionalKey(Schema.Unknown),
    status: Schema.optionalKey(Schema.Unknown)
  }),
  "A result is a JSON object like {\"output\": ...} or {\"error\": \"...\"}."
)

const decodeChunk = decoder(
  Schema.Struct({ output: Schema.Unknown }),
  "A chunk is a JSON object like {\"output\": ...}."
)

const decodePing = decoder(Ping, "A heartbeat is a JSON object like {\"job_id\": [\"...\"], \"runpod_version\": \"...\"}.")

const resultRemedy = "Upload the result to an object store and return its address."

const noContent = HttpServerResponse.empty({ status: 204 })
const accepted = HttpServerResponse.empty({ status: 200 })
const json = (text: string) => HttpServerResponse.text(text, { contentType: "application/json" })

/** The most jobs that one batch take hands out. */
const MAX_BATCH = 1_000

/** `error` on the wire is a string; `null` is what some SDKs send for "none" (rulings, "`error` on the wire"). */
const errorText = (error: unknown): string | null =>
  error === undefined || error === null ? null : typeof error === "string" ? error : JSON.stringify(error)

const attemptOf = (tail: Tail): number | undefined => {
  const attempt = Number(tail.get("attempt"))
  return Number.isInteger(attempt) && attempt > 0 ? attempt : undefined
}

export const layer = HttpApiBuilder.group(
  Api,
  "workers",
  Effect.fnUntraced(function*(handlers) {
    const queue = yield* JobQueue
    const registry = yield* WorkerRegistry
    const limits = yield* Limits
    const findEndpoint = yield* endpointFinder

    const take = Effect.fnUntraced(function*(
      params: { readonly endpoint: string; readonly worker: string },
      limitOf: (tail: Tail) => number,
      render: (jobs: ReadonlyArray<JobRecord>) => string
    ) {
      const { tail, value: worker } = splitTail(params.worker, yield* HttpServerRequest.ParsedSearchParams)
      const endpoint = yield* findEndpoint(params.endpoint).pipe(
        // An SDK worker asks again at once (wire-facts 5.3); see Authorization.ts.
        Effect.tapErrorTag("EndpointNotFound", () => Effect.sleep("1 second"))
      )
      const jobs = yield* storeProblem(queue.take({
        endpoint: endpoint.id,
        worker,
        limit: limitOf(tail),
        waitMs: limits.workerWaitMs,
        holding: tail.get("job_in_progress") !== "0"
      }))
      if (jobs.length === 0) return noContent
      // If the worker hung up while its jobs were being claimed, this is where it shows: they go back unstarted.
      yield* Effect.interruptible(Effect.void).pipe(
        Effect.onInterrupt(() => Effect.ignore(queue.giveBack(endpoint.id, worker, jobs.map((job) => job.id))))
      )
      return json(render(jobs))
    }, Effect.uninterruptible)

    const holderOf = Effect.fnUntraced(function*(
      params: { readonly endpoint: string; readonly worker: string; readonly id: string }
    ) {
      const { tail, value: id } = splitTail(params.id, yield* HttpServerRequest.ParsedSearchParams)
      const endpoint = yield* findEndpoint(params.endpoint)
      const attempt = attemptOf(tail)
      const holder: Holder = { endpoint: endpoint.id, worker: params.worker, job: JobId.make(id), attempt }
      return holder
    })

    /** A result that is too large fails its job with that reason, so that nobody waits for it (rulings, "20 MB"). */
    const failOversized = (holder: Holder, limit: number) =>
      queue.finish(holder, {
        output: null,
        error: `The result is larger than the limit of ${bytesInWords(limit)}. ${resultRemedy}`
      }).pipe(Effect.ignore)

    const done = Effect.fnUntraced(function*({ params, request }: {
      readonly params: { readonly endpoint: string; readonly worker: string; readonly id: string }
      readonly request: HttpServerRequest.HttpServerRequest
    }) {
      const holder = yield* holderOf(params)
      const body = yield* readJson(request, limits.resultBytes, resultRemedy).pipe(
        Effect.tapErrorTag("PayloadTooLarge", ({ limit }) => failOversized(holder, limit)),
        Effect.flatMap(decodeDone)
      )
      if (body.status === "IN_PROGRESS") {
        // Progress that comes late is no fault of anybody's: it may overtake, or be overtaken by, the result (wire-facts 5.6).
        yield* queue.progress(holder, toJsonText(body.output)).pipe(Effect.catchReason("QueueError", "LeaseLost", () => Effect.void), jobProblem)
        return accepted
      }
      // Told before the result ends the job, so that the worker is given no other one in between.
      if (body.stopPod === true) yield* queue.drainWorker(holder.endpoint, holder.worker)
      yield* jobProblem(queue.finish(holder, {
        output: body.output === undefined ? null : toJsonText(body.output),
        error: errorText(body.error)
      }))
      return accepted
    })

    const hear = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, ping: Ping) {
      if (ping.status === "unhealthy") {
        const reason = `fitness check ${ping.check ?? "(unnamed)"} failed: ${ping.reason ?? "no reason given"}`
        yield* Effect.logWarning(`Worker ${worker} of endpoint ${endpoint} is unhealthy: ${reason}.`)
        yield* registry.failing(endpoint, worker, "unhealthy", reason)
        return
      }
      const jobs = pingJobs(ping)
      if (ping.status === "exiting") yield* storeProblem(queue.workerLeaves(endpoint, worker, jobs))
      else yield* storeProblem(queue.beat(endpoint, worker, jobs))
    })

    const single = (jobs: ReadonlyArray<JobRecord>) => jobs.map(takenText).join("")
    const many = (jobs: ReadonlyArray<JobRecord>) => `[${jobs.map(takenText).join(",")}]`
    const batchSize = (tail: Tail) => {
      const size = Math.trunc(Number(tail.get("batch_size")))
      return Number.isNaN(size) ? 1 : Math.min(MAX_BATCH, Math.max(1, size))
    }

    return handlers
      .handleRaw("jobTake", ({ params }) => take(params, () => 1, single), { uninterruptible: true })
      .handleRaw("jobTakeBatch", ({ params }) => take(params, batchSize, many), { uninterruptible: true })
      .handleRaw("jobDone", done)
      .handleRaw(
        "jobStream",
        Effect.fnUntraced(function*({ params, request }) {
          const holder = yield* holderOf(params)
          const body = yield* readJson(request, limits.chunkBytes, "Yield smaller chunks.")
          const { output } = yield* decodeChunk(body)
          yield* jobProblem(queue.append(holder, toJsonText(output)))
          return accepted
        })
      )
      .handleRaw(
        "jobStop",
        Effect.fnUntraced(function*({ params }) {
          const { value: worker } = splitTail(params.worker, yield* HttpServerRequest.ParsedSearchParams)
          const endpoint = yield* findEndpoint(params.endpoint).pipe(
            Effect.tapErrorTag("EndpointNotFound", () => Effect.sleep("1 second"))
          )
          const stops = yield* storeProblem(queue.stops(endpoint.id, worker, limits.workerWaitMs))
          return stops.length === 0 ? noContent : json(JSON.stringify({ jobsToStop: stops }))
        })
      )
      .handleRaw(
        "ping",
        Effect.fnUntraced(function*({ params }) {
          const { tail, value: worker } = splitTail(params.worker, yield* HttpServerRequest.ParsedSearchParams)
          const endpoint = yield* findEndpoint(params.endpoint)
          yield* hear(endpoint.id, worker, yield* decodePing(tail.record))
          return accepted
        })
      )
      .handleRaw(
        "pingByPost",
        Effect.fnUntraced(function*({ params, request }) {
          const { tail, value: worker } = splitTail(params.worker, yield* HttpServerRequest.ParsedSearchParams)
          const endpoint = yield* findEndpoint(params.endpoint)
          const body = yield* readJson(request, limits.chunkBytes, "A heartbeat names jobs; it carries no data.")
          if (typeof body !== "object" || body === null || Array.isArray(body)) {
            return yield* new InvalidRequest(explain("A heartbeat has to be a JSON object.", "Send {\"job_id\": [...]}."))
          }
          yield* hear(endpoint.id, worker, yield* decodePing({ ...tail.record, ...body }))
          return accepted
        })
      )
  })
)

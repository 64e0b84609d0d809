/**
 * The jobs API over the queue (wire-facts 1.1).
 *
 * Bodies are read and written as text: the handlers are raw ones of the same `HttpApi` that OpenAPI and clients come from.
 */
import { Api } from "@stint/contract/Api"
import type { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { RunRequest } from "@stint/contract/Job"
import { jsonNull } from "@stint/contract/Json"
import { traceContextOf } from "@stint/contract/TraceContext"
import { JobQueue } from "@stint/queue/JobQueue"
import type { JobHead } from "@stint/queue/JobRecord"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import { jobText, streamText } from "./JobView.ts"
import { json } from "./JsonAnswer.ts"
import { memberText } from "./JsonMember.ts"
import { Limits, type LimitSettings } from "./Limits.ts"
import { endpointFinder, jobProblem, lookupProblem, storeProblem } from "./QueueProblems.ts"
import { decoder, readJson } from "./RequestBody.ts"

const runHint = "Send a JSON object with the key \"input\", for example {\"input\": {\"name\": \"Ada\"}}."

/** The body of `/run`; `input` came out of `JSON.parse`, so that it is JSON needs no second look. */
const decodeRun = decoder(Schema.Struct({ ...RunRequest.fields, input: Schema.Unknown }), runHint)

/** A `wait` in milliseconds, pulled into the allowed range; the default where there is none or it is no number. */
const waitOf = (wait: string | undefined, fallback: number, limits: LimitSettings): number => {
  const asked = Number(wait)
  if (wait === undefined || wait.trim() === "" || Number.isNaN(asked)) return fallback
  return Math.min(limits.maxWaitMs, Math.max(limits.minWaitMs, Math.trunc(asked)))
}

const remedy = "Send a link to the data instead of the data: put it in an object store and pass its address in \"input\"."

export const layer = HttpApiBuilder.group(
  Api,
  "jobs",
  Effect.fnUntraced(function*(handlers) {
    const queue = yield* JobQueue
    const registry = yield* WorkerRegistry
    const limits = yield* Limits
    const findEndpoint = yield* endpointFinder

    const submit = Effect.fnUntraced(function*(
      endpoint: Endpoint,
      request: HttpServerRequest.HttpServerRequest,
      limit: number,
      id: string
    ) {
      const body = yield* readJson(request, limit, remedy, runHint)
      const { policy } = yield* decodeRun(body.value)
      return yield* storeProblem(queue.submit({
        endpoint,
        id: JobId.make(id),
        input: memberText(body.text, "input") ?? jsonNull,
        policy,
        s3Config: memberText(body.text, "s3Config"),
        trace: traceContextOf(request.headers)
      }))
    })

    const receipt = (job: JobHead) => json(`{"id":${JSON.stringify(job.id)},"status":"${job.status}"}`)

    const status = Effect.fnUntraced(
      function*({ params }: { readonly params: { readonly endpoint: string; readonly id: string } }) {
        const endpoint = yield* findEndpoint(params.endpoint)
        return json(jobText(yield* lookupProblem(queue.get(endpoint.id, params.id)), endpoint))
      }
    )

    const statusSync = Effect.fnUntraced(function*({ params, query }: {
      readonly params: { readonly endpoint: string; readonly id: string }
      readonly query: { readonly wait?: string }
    }) {
      const endpoint = yield* findEndpoint(params.endpoint)
      const wait = waitOf(query.wait, limits.syncWaitMs, limits)
      return json(jobText(yield* lookupProblem(queue.awaitEnd(endpoint.id, params.id, wait)), endpoint))
    })

    const stream = Effect.fnUntraced(function*({ params, query }: {
      readonly params: { readonly endpoint: string; readonly id: string }
      readonly query: { readonly wait?: string }
    }) {
      const endpoint = yield* findEndpoint(params.endpoint)
      const wait = waitOf(query.wait, limits.streamWaitMs, limits)
      const { chunks, job, more } = yield* lookupProblem(queue.drain(endpoint.id, params.id, wait))
      return json(streamText(job, endpoint, chunks, more))
    })

    return handlers
      .handleRaw(
        "run",
        Effect.fnUntraced(function*({ params, request }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          return receipt(yield* submit(endpoint, request, limits.runBytes, randomUUID()))
        })
      )
      .handleRaw(
        "runsync",
        Effect.fnUntraced(function*({ params, query, request }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          const submitted = yield* submit(endpoint, request, limits.runsyncBytes, `sync-${randomUUID()}`)
          const wait = waitOf(query.wait, limits.syncWaitMs, limits)
          // The job cannot be missing: retention is a second at least and starts with the end that is waited for.
          const job = yield* storeProblem(queue.awaitEnd(endpoint.id, submitted.id, wait))
          return json(jobText(job, endpoint))
        })
      )
      .handleRaw("status", status)
      .handleRaw("statusByPost", status)
      .handleRaw("statusSync", statusSync)
      .handleRaw("statusSyncByPost", statusSync)
      .handleRaw("stream", stream)
      .handleRaw("streamByPost", stream)
      .handleRaw(
        "cancel",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          return receipt(yield* lookupProblem(queue.cancel(endpoint.id, params.id)))
        })
      )
      .handleRaw(
        "retry",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          return receipt(yield* jobProblem(queue.retry(endpoint.id, params.id)))
        })
      )
      .handle(
        "purgeQueue",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          return { removed: yield* storeProblem(queue.purge(endpoint.id)), status: "completed" as const }
        })
      )
      .handle(
        "health",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          const depth = yield* storeProblem(queue.depth(endpoint.id))
          const workers = yield* registry.list(endpoint.id)
          const count = (...states: ReadonlyArray<string>) => workers.filter((worker) => states.includes(worker.state)).length
          return {
            jobs: {
              completed: depth.completed,
              failed: depth.failed,
              inProgress: depth.running,
              inQueue: depth.waiting,
              retried: depth.retried
            },
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

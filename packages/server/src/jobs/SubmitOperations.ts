/**
 * Submitting jobs, over the queue: `/run` and `/runsync` (docs/spec/jobs-api.md#submitting-a-job).
 *
 * Each is a request's answer, or its problem. Who may call, and by which route a request comes here, is for others to say: `JobsHandlers`
 * has them in the `HttpApi`, `HotRoutes` beside it.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { isTerminal } from "@stint/contract/Job"
import { JOB_ID_HEADER } from "@stint/contract/JobsApi"
import { JobQueue } from "@stint/queue/JobQueue"
import type { JobHead } from "@stint/store/JobRecord"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { answer, countMemory } from "../http/BodyAdmission.ts"
import { jsonWithEarlyHeaders } from "../http/EarlyHeaders.ts"
import { json } from "../http/JsonResponse.ts"
import { clampWait, Limits } from "../http/Limits.ts"
import { endpointFinder, mapSubmitErrors } from "../http/QueueProblems.ts"
import { jobJson, receiptJson } from "./JobView.ts"
import { readSubmission, type SubmissionLimit, submissionLimits } from "./SubmitRequest.ts"

const make = Effect.gen(function*() {
  const queue = yield* JobQueue
  const limits = yield* Limits
  const sizes = submissionLimits(limits)
  const findEndpoint = yield* endpointFinder

  const submit = Effect.fnUntraced(function*(
    endpoint: Endpoint,
    request: HttpServerRequest.HttpServerRequest,
    limit: SubmissionLimit,
    prefix: "" | "sync-"
  ) {
    return yield* mapSubmitErrors(queue.submit(yield* readSubmission(endpoint, request, limit, prefix)))
  })

  const named = (job: JobHead) => ({ [JOB_ID_HEADER]: job.id })

  /** Keeps the job and answers at once. */
  const run = Effect.fnUntraced(function*(id: string, request: HttpServerRequest.HttpServerRequest) {
    const endpoint = yield* findEndpoint(id)
    const job = yield* submit(endpoint, request, sizes.run, "")
    return json(receiptJson(job), named(job))
  })

  /** Keeps the job and answers with its end, or with how it stands after `wait`. */
  const runsync = Effect.fnUntraced(
    function*(id: string, request: HttpServerRequest.HttpServerRequest, asked: string | undefined) {
      const endpoint = yield* findEndpoint(id)
      const submitted = yield* submit(endpoint, request, sizes.runsync, "sync-")
      const wait = clampWait(asked, limits.syncWaitMs, limits)
      // The job cannot be missing: retention is a second at least and starts with the end that is waited for. And it is kept by now,
      // so where the store fails, what it was when it was kept is true, and makes the caller ask again.
      const end = (millis: number) =>
        Effect.match(
          Effect.tapError(
            queue.awaitEnd(endpoint.id, submitted.id, millis),
            (error) => Effect.logError(`The wait for the end of job ${submitted.id} broke off: ${error.message}.`)
          ),
          {
            onSuccess: (job) => ({ over: isTerminal(job.status), text: jobJson(job, endpoint) }),
            onFailure: () => ({ over: true, text: receiptJson(submitted) })
          }
        )
      const { over, text } = yield* end(Math.min(wait, limits.headWaitMs))
      if (over || wait <= limits.headWaitMs) return yield* answer(text, named(submitted))
      const rest = Effect.map(end(wait - limits.headWaitMs), (ended) => ended.text)
      const scope = yield* Effect.scope
      return jsonWithEarlyHeaders(request, Effect.provideService(countMemory(rest), Scope.Scope, scope), named(submitted))
    }
  )

  return { run, runsync }
})

/** How callers submit. */
export class SubmitOperations extends Context.Service<SubmitOperations, Effect.Success<typeof make>>()(
  "@stint/server/SubmitOperations"
) {}

/** The operations over the queue. */
export const layer = Layer.effect(SubmitOperations, make)

/**
 * The operations that submit jobs: `/run` and `/runsync` (docs/spec/jobs-api.md#submitting-a-job).
 *
 * Each operation returns a response or fails with a problem. Callers of these operations check the key, look up the endpoint and match the
 * route: `JobsHandlers` for the `HttpApi`, `FastPath` for the fast path.
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
import { jsonWithEarlyHeaders } from "../http/EarlyHeaders.ts"
import { json, trackedJson, trackMemory } from "../http/JsonResponse.ts"
import { clampWait, Limits } from "../http/Limits.ts"
import { mapSubmitErrors } from "../http/QueueProblems.ts"
import { jobJson, receiptJson } from "./JobView.ts"
import { readSubmission, submissionLimits, type Submitter } from "./SubmitRequest.ts"

const make = Effect.gen(function*() {
  const queue = yield* JobQueue
  const limits = yield* Limits
  const sizes = submissionLimits(limits)

  const jobIdHeader = (job: JobHead) => ({ [JOB_ID_HEADER]: job.id })

  /** Stores the job and responds at once. Without generators: see docs/decisions/0014-fast-path.md#few-steps. */
  const run = (endpoint: Endpoint, submitter: Submitter, request: HttpServerRequest.HttpServerRequest) =>
    Effect.map(
      Effect.flatMap(
        readSubmission(endpoint, submitter, request, sizes.run, ""),
        (submission) => mapSubmitErrors(queue.submit(submission))
      ),
      (job) => json(receiptJson(job), jobIdHeader(job))
    )

  /** Stores the job and responds with its result, or, if it has not ended after `wait`, with its state. */
  const runsync = Effect.fnUntraced(
    function*(
      endpoint: Endpoint,
      submitter: Submitter,
      request: HttpServerRequest.HttpServerRequest,
      requestedWait: string | undefined
    ) {
      const submitted = yield* mapSubmitErrors(
        queue.submit(yield* readSubmission(endpoint, submitter, request, sizes.runsync, "sync-"))
      )
      const wait = clampWait(requestedWait, limits.syncWaitMs, limits)
      // The job cannot be missing: retention is at least a second and starts when the job ends. The job has been stored by now, so if the
      // store fails during the wait, the receipt is still correct, and its status makes the caller poll.
      const resultWithin = (millis: number) =>
        Effect.match(
          Effect.tapError(
            queue.awaitEnd(endpoint.id, submitted.id, millis),
            (error) => Effect.logError(`The wait for job ${submitted.id} to end failed: ${error.message}.`)
          ),
          {
            onSuccess: (job) => ({ final: isTerminal(job.status), text: jobJson(job, endpoint) }),
            onFailure: () => ({ final: true, text: receiptJson(submitted) })
          }
        )
      const { final, text } = yield* resultWithin(Math.min(wait, limits.headWaitMs))
      if (final || wait <= limits.headWaitMs) return yield* trackedJson(text, jobIdHeader(submitted))
      const rest = Effect.map(resultWithin(wait - limits.headWaitMs), ({ text }) => text)
      const scope = yield* Effect.scope
      return jsonWithEarlyHeaders(request, Effect.provideService(trackMemory(rest), Scope.Scope, scope), jobIdHeader(submitted))
    }
  )

  return { run, runsync }
})

/** The operations that submit jobs. */
export class SubmitOperations extends Context.Service<SubmitOperations, Effect.Success<typeof make>>()(
  "@stint/server/SubmitOperations"
) {}

/** The operations on top of the queue. */
export const layer = Layer.effect(SubmitOperations, make)

/**
 * The OpenAI route on top of the queue (docs/spec/openai-route.md#requests).
 *
 * ```
 *   request --> a durable job --follow--> [ up to 45 s without response headers ]
 *                                           ended: status and body         first chunk: 200, text/event-stream
 *                                           else:  200, white space ...    else:        200, comments ...
 *                                                  then the body                        then the chunks
 *   the caller disconnects --> the job is cancelled, unless it has an Idempotency-Key
 * ```
 *
 * The status must be sent before anything else, so the server delays it for as long as proxies allow. A caller without an Idempotency-Key
 * cannot fetch the result later, and generating output that is never read is a waste.
 */
import { Api } from "@stint/contract/Api"
import { CurrentEndpoint } from "@stint/contract/Authorization"
import { JOB_ID_HEADER } from "@stint/contract/JobsApi"
import { REQUEST_ID_HEADER } from "@stint/contract/OpenAiApi"
import { type JobNotFound, problemMembers, Unavailable } from "@stint/contract/Problem"
import { monotonicMillis } from "@stint/queue/ClockWatch"
import type { JobEvent } from "@stint/queue/JobEventCursor"
import { JobQueue } from "@stint/queue/JobQueue"
import type { JobHead } from "@stint/store/JobRecord"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { jsonWithKeepAlive } from "../http/EarlyHeaders.ts"
import { trackedJson, trackMemory } from "../http/JsonResponse.ts"
import { Limits } from "../http/Limits.ts"
import { mapLookupErrors, mapSubmitErrors } from "../http/QueueProblems.ts"
import * as TimedPull from "../http/TimedPull.ts"
import { submitter } from "../jobs/SubmitRequest.ts"
import * as OpenAiErrorResponse from "./OpenAiErrorResponse.ts"
import * as OpenAiRequest from "./OpenAiRequest.ts"
import * as OpenAiResponse from "./OpenAiResponse.ts"

/** A request and its job. */
interface Call {
  readonly job: JobHead
  readonly headers: Readonly<Record<string, string>>
  /** The job's next events; empty if no event arrives within `millis`. */
  readonly next: (millis: number) => Effect.Effect<ReadonlyArray<JobEvent>, Unavailable | JobNotFound>
  /** Whether the end event was received. */
  ended: boolean
}

const SHUTTING_DOWN = new Unavailable(problemMembers(
  "The platform is shutting down before the job has ended.",
  "Send the request again in a few seconds. The job was cancelled, unless the request had an Idempotency-Key."
))

/** Rejects HEAD, which would run a job and discard its result. */
const HEAD: OpenAiErrorResponse.OpenAiErrorResponse = OpenAiErrorResponse.ofProblem({
  status: 405,
  type: "method-not-allowed",
  error: "The OpenAI route does not support HEAD.",
  hint: "Use GET."
})

const NO_ROUTE: OpenAiErrorResponse.OpenAiErrorResponse = OpenAiErrorResponse.ofProblem({
  status: 404,
  type: "route-not-found",
  error: "The URL ends at /openai/v1 and names no route.",
  hint: "Append a route, for example /openai/v1/chat/completions or /openai/v1/models."
})

const encoder = new TextEncoder()

/** The text to send for a step: a comment when the step has no text and more follows. */
const textOrKeepAlive = ({ ended, state, text }: OpenAiResponse.StreamStep): string =>
  text === "" && !ended ? OpenAiResponse.keepAlive(state) : text

/** The handlers of the OpenAI route. */
export const layer = HttpApiBuilder.group(
  Api,
  "openai",
  Effect.fnUntraced(function*(handlers) {
    const queue = yield* JobQueue
    const limits = yield* Limits
    const size = OpenAiRequest.submissionLimit(limits)

    const cancel = (job: JobHead) =>
      Effect.catch(
        queue.cancel(job.endpoint, job.id),
        (error) => Effect.logWarning(`Could not cancel job ${job.id} after its caller disconnected: ${error.message}.`)
      )

    /** Submits the job for a request and follows its events. If the request ends before the job does, the job is cancelled. */
    const submitAndFollow = Effect.fnUntraced(function*({ submission }: OpenAiRequest.OpenAiSubmission) {
      const { idempotencyKey } = submission
      const call = yield* Effect.acquireRelease(
        Effect.map(mapSubmitErrors(queue.submit(submission)), (job) => ({ job, ended: false })),
        ({ ended, job }) => ended || idempotencyKey !== undefined ? Effect.void : cancel(job)
      )
      const { job } = call
      const within = yield* TimedPull.make(
        Stream.catch(
          queue.follow(job.endpoint, job.id, undefined, { logs: false }),
          (error) => Stream.fromEffect(mapLookupErrors(Effect.fail(error)))
        )
      )
      return Object.assign(call, {
        headers: { [JOB_ID_HEADER]: job.id, [REQUEST_ID_HEADER]: job.id },
        next: Effect.fnUntraced(
          function*(millis: number) {
            const event = Option.getOrElse(yield* within(millis), (): ReadonlyArray<JobEvent> => [])
            if (event.some(({ _tag }) => _tag === "End")) call.ended = true
            return event
          },
          // The event stream ended before the job did, which happens only at shutdown.
          Effect.catchIf(Cause.isDone, () => Effect.fail(SHUTTING_DOWN))
        )
      })
    })

    /** Waits up to `millis` for the job's response; undefined while the job has not ended. */
    const responseReader = (call: Call) => {
      let collected = OpenAiResponse.NO_CHUNKS
      return Effect.fnUntraced(function*(millis: number): Effect.fn.Return<
        OpenAiResponse.Answer | undefined,
        Unavailable | JobNotFound
      > {
        const until = monotonicMillis(yield* Clock.Clock) + millis
        while (true) {
          const left = until - monotonicMillis(yield* Clock.Clock)
          if (left <= 0) return undefined
          for (const event of yield* call.next(left)) {
            if (event._tag === "End") return OpenAiResponse.answer(event.job, collected)
            collected = OpenAiResponse.collect(collected, event)
          }
        }
      })
    }

    const respondOnce = Effect.fnUntraced(function*(call: Call) {
      const collect = responseReader(call)
      const first = yield* collect(limits.openAiHeadWaitMs)
      if (first !== undefined) {
        return "text" in first
          ? yield* trackedJson(first.text, call.headers)
          : OpenAiErrorResponse.response(first.failure, call.headers)
      }
      const later = collect(limits.heartbeatMs).pipe(
        Effect.catch((problem) => Effect.succeed({ failure: OpenAiErrorResponse.ofProblem(problem) })),
        Effect.map((collected) => {
          if (collected === undefined) return ""
          return "text" in collected ? collected.text : OpenAiErrorResponse.textOf(collected.failure)
        })
      )
      const scope = yield* Effect.scope
      return jsonWithKeepAlive(Effect.provideService(trackMemory(later), Scope.Scope, scope), call.headers)
    })

    /** Waits up to `millis` for the next text to send. */
    const nextOutput = Effect.fnUntraced(
      function*(call: Call, before: OpenAiResponse.StreamState, millis: number): Effect.fn.Return<
        OpenAiResponse.StreamStep,
        Unavailable | JobNotFound
      > {
        const until = monotonicMillis(yield* Clock.Clock) + millis
        let state = before
        let text = ""
        while (text === "") {
          const left = until - monotonicMillis(yield* Clock.Clock)
          if (left <= 0) break
          for (const one of yield* call.next(left)) {
            const next = OpenAiResponse.nextStep(state, one)
            text += next.text
            if (next.ended) return { ...next, text }
            state = next.state
          }
        }
        return { state, text, ended: false }
      }
    )

    const respondStream = Effect.fnUntraced(function*(call: Call) {
      const first = yield* nextOutput(call, OpenAiResponse.EMPTY_STREAM, limits.openAiHeadWaitMs)
      // Nothing has been sent yet, so the response can still have an error status.
      if (first.failure !== undefined && first.state.chunks === 0) {
        return OpenAiErrorResponse.response(first.failure, call.headers)
      }
      const rest = Stream.paginate(
        first,
        Effect.fnUntraced(function*({ ended, state }) {
          if (ended) return [[], Option.none()] as const
          const next = yield* Effect.catch(
            nextOutput(call, state, limits.heartbeatMs),
            (problem) => Effect.succeed(OpenAiResponse.fail(state, OpenAiErrorResponse.ofProblem(problem)))
          )
          return [[textOrKeepAlive(next)], Option.some(next)] as const
        })
      )
      return HttpServerResponse.stream(
        Stream.make(textOrKeepAlive(first)).pipe(
          Stream.concat(rest),
          Stream.filter((text) => text !== ""),
          Stream.map((text) => encoder.encode(text))
        ),
        {
          contentType: "text/event-stream",
          // Without x-accel-buffering, nginx would buffer the response.
          headers: { ...call.headers, "cache-control": "no-cache", "x-accel-buffering": "no" }
        }
      )
    })

    const respond = Effect.fnUntraced(
      function*({ request }: {
        readonly request: HttpServerRequest.HttpServerRequest
      }) {
        if (request.method === "HEAD") {
          return HttpServerResponse.setHeader(OpenAiErrorResponse.response(HEAD), "allow", "GET, POST, DELETE")
        }
        const { "*": rest = "" } = yield* HttpRouter.params
        const route = rest.replace(/\/+$/, "")
        if (route === "") return OpenAiErrorResponse.response(NO_ROUTE)
        const endpoint = yield* CurrentEndpoint
        if (OpenAiRequest.isMultipart(request)) return OpenAiErrorResponse.response(OpenAiRequest.MULTIPART_UNSUPPORTED)
        const parsed = yield* OpenAiRequest.read(endpoint, yield* submitter, request, `/v1/${route}`, size)
        const call = yield* submitAndFollow(parsed)
        const response = parsed.streamed ? respondStream(call) : respondOnce(call)
        return yield* Effect.catch(
          response,
          (problem) => Effect.succeed(OpenAiErrorResponse.response(OpenAiErrorResponse.ofProblem(problem), call.headers))
        )
      },
      Effect.catch((problem) => Effect.succeed(OpenAiErrorResponse.response(OpenAiErrorResponse.ofProblem(problem))))
    )

    return handlers
      .handleRaw("openaiPost", respond)
      .handleRaw("openaiGet", respond)
      .handleRaw("openaiDelete", respond)
  })
)

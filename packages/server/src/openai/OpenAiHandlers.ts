/**
 * The OpenAI route over the queue (docs/spec/openai-route.md#requests).
 *
 * ```
 *   request --> a durable job --follow--> [ up to 45 s: the head is kept back ]
 *                                           ended: status and body         first chunk: 200, text/event-stream
 *                                           else:  200, white space ...    else:        200, comments ...
 *                                                  then the body                        then the chunks
 *   the caller hangs up --> the job is cancelled, unless an Idempotency-Key leads back to it
 * ```
 *
 * A status can be said only before anything else, so it waits as long as proxies do. Whoever sends no key of its own can never ask for the
 * answer again, and a model that writes for nobody costs as much as one that is read.
 */
import { Api } from "@stint/contract/Api"
import type { Endpoint } from "@stint/contract/Endpoint"
import { JOB_ID_HEADER } from "@stint/contract/JobsApi"
import { REQUEST_ID_HEADER } from "@stint/contract/OpenAiApi"
import { type JobNotFound, problemMembers, Unavailable } from "@stint/contract/Problem"
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
import { answer, countMemory } from "../http/BodyAdmission.ts"
import { jsonWithKeepAlive } from "../http/EarlyHeaders.ts"
import { Limits } from "../http/Limits.ts"
import { endpointFinder, mapLookupErrors, mapSubmitErrors } from "../http/QueueProblems.ts"
import * as TimedPull from "../http/TimedPull.ts"
import * as OpenAiErrorResponse from "./OpenAiErrorResponse.ts"
import * as OpenAiRequest from "./OpenAiRequest.ts"
import * as OpenAiResponse from "./OpenAiResponse.ts"

/** A request and its job. */
interface Call {
  readonly job: JobHead
  readonly headers: Readonly<Record<string, string>>
  /** What is told of the job next; nothing where there was nothing in so many milliseconds. */
  readonly next: (millis: number) => Effect.Effect<ReadonlyArray<JobEvent>, Unavailable | JobNotFound>
  /** The job's end was told. */
  ended: boolean
}

const SHUTTING_DOWN = new Unavailable(problemMembers(
  "The platform is going down before the job has ended.",
  "Send the request again in a few seconds. The job was cancelled, unless the request had an Idempotency-Key."
))

/** A HEAD would run a job and throw its answer away. */
const HEAD: OpenAiErrorResponse.OpenAiErrorResponse = OpenAiErrorResponse.ofProblem({
  status: 405,
  type: "method-not-allowed",
  error: "HEAD is not for this address.",
  hint: "Use GET."
})

const NO_ROUTE: OpenAiErrorResponse.OpenAiErrorResponse = OpenAiErrorResponse.ofProblem({
  status: 404,
  type: "route-not-found",
  error: "Nothing is at /openai/v1 itself.",
  hint: "Add a route, for example /openai/v1/chat/completions or /openai/v1/models."
})

const encoder = new TextEncoder()

/** What is sent of a saying: while there is nothing to say, that the connection lives. */
const shown = ({ over, state, text }: OpenAiResponse.StreamStep): string =>
  text === "" && !over ? OpenAiResponse.keepAlive(state) : text

/** The handlers of the OpenAI route. */
export const layer = HttpApiBuilder.group(
  Api,
  "openai",
  Effect.fnUntraced(function*(handlers) {
    const queue = yield* JobQueue
    const limits = yield* Limits
    const size = OpenAiRequest.submissionLimit(limits)
    const findEndpoint = yield* endpointFinder

    const cancel = (job: JobHead) =>
      Effect.catch(
        queue.cancel(job.endpoint, job.id),
        (error) => Effect.logWarning(`Job ${job.id} goes on although its caller hung up: ${error.message}.`)
      )

    /** The job of a request, and its reading. Whatever ends the request before the job ends the job, too. */
    const open = Effect.fnUntraced(function*({ submission }: OpenAiRequest.OpenAiSubmission) {
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
          // A job that is followed to its end is left there: whoever comes here was sent away before.
          Effect.catchIf(Cause.isDone, () => Effect.fail(SHUTTING_DOWN))
        )
      })
    })

    /** Hears a job out, for so long; undefined while it has not ended. */
    const responseReader = (call: Call) => {
      let collected = OpenAiResponse.NO_CHUNKS
      return Effect.fnUntraced(function*(millis: number): Effect.fn.Return<
        OpenAiResponse.Answer | undefined,
        Unavailable | JobNotFound
      > {
        const until = (yield* Clock.currentTimeMillis) + millis
        while (true) {
          const left = until - (yield* Clock.currentTimeMillis)
          if (left <= 0) return undefined
          for (const event of yield* call.next(left)) {
            if (event._tag === "End") return OpenAiResponse.answer(event.job, collected)
            collected = OpenAiResponse.collect(collected, event)
          }
        }
      })
    }

    const whole = Effect.fnUntraced(function*(call: Call) {
      const collect = responseReader(call)
      const first = yield* collect(limits.openAiHeadWaitMs)
      if (first !== undefined) {
        return "text" in first
          ? yield* answer(first.text, call.headers)
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
      return jsonWithKeepAlive(Effect.provideService(countMemory(later), Scope.Scope, scope), call.headers)
    })

    /** Listens until there is something to say, for so long at most. */
    const nextOutput = Effect.fnUntraced(
      function*(call: Call, before: OpenAiResponse.StreamState, millis: number): Effect.fn.Return<
        OpenAiResponse.StreamStep,
        Unavailable | JobNotFound
      > {
        const until = (yield* Clock.currentTimeMillis) + millis
        let state = before
        let text = ""
        while (text === "") {
          const left = until - (yield* Clock.currentTimeMillis)
          if (left <= 0) break
          for (const one of yield* call.next(left)) {
            const next = OpenAiResponse.nextStep(state, one)
            text += next.text
            if (next.over) return { ...next, text }
            state = next.state
          }
        }
        return { state, text, over: false }
      }
    )

    const streamed = Effect.fnUntraced(function*(call: Call) {
      const first = yield* nextOutput(call, OpenAiResponse.EMPTY_STREAM, limits.openAiHeadWaitMs)
      // Nothing was said yet, so that it can still be said by a status.
      if (first.failure !== undefined && first.state.chunks === 0) {
        return OpenAiErrorResponse.response(first.failure, call.headers)
      }
      const rest = Stream.paginate(
        first,
        Effect.fnUntraced(function*({ over, state }) {
          if (over) return [[], Option.none()] as const
          const next = yield* Effect.catch(
            nextOutput(call, state, limits.heartbeatMs),
            (problem) => Effect.succeed(OpenAiResponse.fail(state, OpenAiErrorResponse.ofProblem(problem)))
          )
          return [[shown(next)], Option.some(next)] as const
        })
      )
      return HttpServerResponse.stream(
        Stream.make(shown(first)).pipe(
          Stream.concat(rest),
          Stream.filter((text) => text !== ""),
          Stream.map((text) => encoder.encode(text))
        ),
        {
          contentType: "text/event-stream",
          // The last one is for nginx, which holds answers back otherwise.
          headers: { ...call.headers, "cache-control": "no-cache", "x-accel-buffering": "no" }
        }
      )
    })

    const respond = Effect.fnUntraced(
      function*({ params, request }: {
        readonly params: { readonly endpoint: string }
        readonly request: HttpServerRequest.HttpServerRequest
      }) {
        if (request.method === "HEAD") {
          return HttpServerResponse.setHeader(OpenAiErrorResponse.response(HEAD), "allow", "GET, POST, DELETE")
        }
        const { "*": rest = "" } = yield* HttpRouter.params
        const route = rest.replace(/\/+$/, "")
        if (route === "") return OpenAiErrorResponse.response(NO_ROUTE)
        const endpoint: Endpoint = yield* findEndpoint(params.endpoint)
        if (OpenAiRequest.isMultipart(request)) return OpenAiErrorResponse.response(OpenAiRequest.MULTIPART_UNSUPPORTED)
        const asked = yield* OpenAiRequest.read(endpoint, request, `/v1/${route}`, size)
        const call = yield* open(asked)
        const answered = asked.streamed ? streamed(call) : whole(call)
        return yield* Effect.catch(
          answered,
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

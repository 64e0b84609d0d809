/**
 * Performs programs with Effect: `HttpClient` for the calls, so that they are traced and can be swapped, and the Clock for the pauses.
 *
 * Interruption ends the request or the pause of the moment, and with it the program.
 */
import { CallError } from "@stint/client/CallError"
import {
  type Call,
  type Closed,
  type Decoders,
  type HttpResponse,
  type NoResponse,
  type Opened,
  type OpenStream,
  type Part,
  type Pause,
  type PauseEnded,
  type Program,
  type Reply,
  type Step,
  unexpectedReply
} from "@stint/client/DriverProtocol"
import { Health } from "@stint/contract/Health"
import { Job, JobReceipt, Purged, StreamPage } from "@stint/contract/Job"
import { JobChunkEvent, JobProgressEvent, JobStatusEvent } from "@stint/contract/JobEvents"
import { JobLogLine } from "@stint/contract/JobLogLine"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import * as Option from "effect/Option"
import * as Pull from "effect/Pull"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type ClientError, fromCallError } from "./ClientError.ts"

const reading = <A>(schema: Schema.ConstraintDecoder<A>) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (json: unknown): A | undefined => Option.getOrUndefined(decode(json))
}

/** Reads answers with the contract's Schemas. */
export const decoders: Decoders = {
  job: reading(Job),
  receipt: reading(JobReceipt),
  page: reading(StreamPage),
  events: {
    status: reading(JobStatusEvent),
    progress: reading(JobProgressEvent),
    chunk: reading(JobChunkEvent),
    log: reading(JobLogLine),
    end: reading(Job)
  },
  purged: reading(Purged),
  health: reading(Health)
}

const requestOf = ({ body, headers, method, url }: Call | OpenStream) => {
  const request = HttpClientRequest.make(method)(url, { headers })
  return body === undefined ? request : HttpClientRequest.bodyText(request, body, "application/json")
}

/** Begins to measure; the effect that it gives tells how long it has been. Milliseconds. */
const stopwatch = Effect.map(Clock.currentTimeMillis, (start) => Effect.map(Clock.currentTimeMillis, (now) => now - start))

const noResponse = (took: Effect.Effect<number>, cause: unknown, timedOut: boolean, jobId?: string): Effect.Effect<NoResponse> =>
  Effect.map(took, (took) => ({ _tag: "NoResponse", cause, timedOut, jobId, took }))

/** Reads an answer to its end. */
const answerOf = (
  { headers, status, text }: HttpClientResponse.HttpClientResponse,
  took: Effect.Effect<number>
): Effect.Effect<HttpResponse | NoResponse> => {
  const jobId = headers["x-job-id"]
  return text.pipe(
    Effect.zipWith(took, (text, took): HttpResponse => ({
      _tag: "HttpResponse",
      status,
      text,
      retryAfter: headers["retry-after"],
      location: headers["location"],
      jobId,
      took
    })),
    Effect.catchTag("HttpClientError", (error) => noResponse(took, error, false, jobId))
  )
}

const call = (http: HttpClient.HttpClient, step: Call): Effect.Effect<HttpResponse | NoResponse> =>
  Effect.gen(function*() {
    const took = yield* stopwatch
    let jobId: string | undefined
    return yield* http.execute(requestOf(step)).pipe(
      Effect.flatMap((response) => {
        jobId = response.headers["x-job-id"]
        return answerOf(response, took)
      }),
      Effect.catchTag("HttpClientError", (error) => noResponse(took, error, false)),
      Effect.timeoutOrElse({ duration: step.timeout, orElse: () => noResponse(took, undefined, true, jobId) })
    )
  })

const sleep = ({ atLeast, spread }: Pause): Effect.Effect<PauseEnded> =>
  Effect.gen(function*() {
    const took = atLeast + (yield* Random.next) * spread
    yield* Effect.sleep(took)
    return { _tag: "PauseEnded", took }
  })

const isEvents = ({ headers, status }: HttpClientResponse.HttpClientResponse): boolean =>
  status === 200 && (headers["content-type"] ?? "").startsWith("text/event-stream")

/** An answer that is read as it comes. */
interface Incoming {
  readonly scope: Scope.Closeable
  readonly pull: Pull.Pull<ReadonlyArray<string>, unknown>
}

/** What one reader has open: at most one answer, until the scope's end. */
const incoming = (http: HttpClient.HttpClient) =>
  Effect.gen(function*() {
    const whole = yield* Effect.scope
    const scoped = HttpClient.withScope(http)
    let open: Incoming | undefined

    const closeResponse = Effect.suspend(() => {
      const scope = open?.scope
      open = undefined
      return scope === undefined ? Effect.void : Scope.close(scope, Exit.void)
    })

    const openStream = (step: OpenStream): Effect.Effect<HttpResponse | Opened | NoResponse> =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function*() {
          yield* closeResponse
          const took = yield* stopwatch
          const scope = yield* Scope.fork(whole)
          const opened = yield* restore(
            scoped.execute(requestOf(step)).pipe(
              Effect.flatMap((response): Effect.Effect<HttpResponse | Opened | NoResponse, never, Scope.Scope> =>
                isEvents(response)
                  ? Effect.gen(function*() {
                    const pull = yield* Stream.toPull(Stream.decodeText(response.stream))
                    open = { scope, pull }
                    return { _tag: "Opened", took: yield* took }
                  })
                  : answerOf(response, took)
              ),
              Effect.catchTag("HttpClientError", (error) => noResponse(took, error, false)),
              Effect.timeoutOrElse({ duration: step.timeout, orElse: () => noResponse(took, undefined, true) }),
              Scope.provide(scope)
            )
          )
          if (opened._tag !== "Opened") yield* Scope.close(scope, Exit.void)
          return opened
        })
      )

    const read = (timeout: number): Effect.Effect<Part | Closed | NoResponse> =>
      Effect.gen(function*() {
        if (open === undefined) return yield* Effect.die(unexpectedReply("Read", { _tag: "Closed", took: 0 }))
        const took = yield* stopwatch
        const reply = yield* Pull.matchEffect(open.pull, {
          onSuccess: (texts) => Effect.map(took, (took): Part => ({ _tag: "Part", text: texts.join(""), took })),
          onFailure: (cause) => noResponse(took, Cause.squash(cause), false),
          onDone: () => Effect.map(took, (took): Closed => ({ _tag: "Closed", took }))
        }).pipe(Effect.timeoutOrElse({ duration: timeout, orElse: () => noResponse(took, undefined, true) }))
        if (reply._tag !== "Part") yield* closeResponse
        return reply
      })

    return { openStream, read }
  })

/** Performs programs. The program is made anew every time that the effect runs. */
export type Drive = <A>(program: () => Program<A>) => Effect.Effect<A, ClientError>

/** How programs are performed over one `HttpClient`. */
export interface Driver {
  /** A program that reads nothing as it comes. */
  readonly drive: Drive
  /** The programs of one reader, one after the other. An answer that is read as it comes stays open between them, until the scope's end. */
  readonly session: Effect.Effect<Drive, never, Scope.Scope>
}

const driveWith = (perform: (step: Step) => Effect.Effect<Reply>): Drive =>
  Effect.fnUntraced(function*<A>(program: () => Program<A>): Effect.fn.Return<A, ClientError> {
    const steps = program()
    // What a program throws is a CallError; anything else is a mistake of ours.
    const advance = (...reply: [] | [Reply]) =>
      Effect.suspend(() => {
        try {
          return Effect.succeed(steps.next(...reply))
        } catch (error) {
          return error instanceof CallError ? Effect.fail(fromCallError(error)) : Effect.die(error)
        }
      })
    let next = yield* advance()
    while (next.done !== true) next = yield* advance(yield* perform(next.value))
    return next.value
  })

/** The driver over an `HttpClient`. */
export const make = (http: HttpClient.HttpClient): Driver => ({
  drive: driveWith((step) => {
    switch (step._tag) {
      case "Call":
        return call(http, step)
      case "Pause":
        return sleep(step)
      case "OpenStream":
      case "Read":
        return Effect.die(unexpectedReply(step._tag, { _tag: "Closed", took: 0 }))
    }
  }),
  session: Effect.map(incoming(http), ({ openStream, read }) =>
    driveWith((step) => {
      switch (step._tag) {
        case "Call":
          return call(http, step)
        case "Pause":
          return sleep(step)
        case "OpenStream":
          return openStream(step)
        case "Read":
          return read(step.timeout)
      }
    }))
})

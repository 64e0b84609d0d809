/**
 * Runs programs with Effect. Requests use `HttpClient`, which traces them and can be replaced in tests; pauses use the Clock.
 *
 * Interruption ends the current step, and with it the program.
 */
import { CallError } from "@stint/client/CallError"
import {
  type Call,
  type Closed,
  type Decoders,
  type Events,
  type HttpResponse,
  type NoResponse,
  type Opened,
  type OpenStream,
  type Pause,
  type PauseEnded,
  type Program,
  type Reply,
  type Step,
  unexpectedReply
} from "@stint/client/DriverProtocol"
import type { SseEvent } from "@stint/client/SseParser"
import { Health } from "@stint/contract/Health"
import { Job, JobReceipt, Purged, StreamPage } from "@stint/contract/Job"
import { JobChunkEvent, JobProgressEvent, JobStatusEvent } from "@stint/contract/JobEvents"
import { JobLogLine } from "@stint/contract/JobLogLine"
import { EventReceipt } from "@stint/contract/RunSteps"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import * as Option from "effect/Option"
import * as Pull from "effect/Pull"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { type ClientError, fromCallError } from "./ClientError.ts"

const decoder = <A>(schema: Schema.ConstraintDecoder<A>) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (json: unknown): A | undefined => Option.getOrUndefined(decode(json))
}

/** Validates responses with the contract's Schemas. */
export const decoders: Decoders = {
  job: decoder(Job),
  receipt: decoder(JobReceipt),
  page: decoder(StreamPage),
  events: {
    status: decoder(JobStatusEvent),
    progress: decoder(JobProgressEvent),
    chunk: decoder(JobChunkEvent),
    log: decoder(JobLogLine),
    end: decoder(Job)
  },
  purged: decoder(Purged),
  eventReceipt: decoder(EventReceipt),
  health: decoder(Health)
}

const requestOf = ({ body, headers, method, url }: Call | OpenStream) => {
  const request = HttpClientRequest.make(method)(url, { headers })
  return body === undefined ? request : HttpClientRequest.bodyText(request, body, "application/json")
}

/** Starts a timer. The returned effect reads it, in milliseconds. */
const stopwatch = Effect.map(Clock.currentTimeMillis, (start) => Effect.map(Clock.currentTimeMillis, (now) => now - start))

const noResponse = (took: Effect.Effect<number>, cause: unknown, timedOut: boolean, jobId?: string): Effect.Effect<NoResponse> =>
  Effect.map(took, (took) => ({ _tag: "NoResponse", cause, timedOut, jobId, took }))

/** Reads a whole response. */
const readResponse = (
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
        return readResponse(response, took)
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

/**
 * Returns a function that parses Server-Sent Events from chunks of text. It ignores `retry`, because the client determines its own pauses.
 */
const eventParser = () => {
  let events: Array<SseEvent> = []
  const parser = Sse.makeParser((event) => {
    if (event._tag === "Event") events.push({ id: event.id ?? "", event: event.event, data: event.data })
  }, { maxEventSize: Number.POSITIVE_INFINITY })
  return (chunks: ReadonlyArray<string>): ReadonlyArray<SseEvent> => {
    events = []
    for (const chunk of chunks) parser.feed(chunk)
    return events
  }
}

/** An open response. */
interface EventStream {
  readonly scope: Scope.Closeable
  readonly pull: Pull.Pull<ReadonlyArray<string>, unknown>
  readonly parse: (chunks: ReadonlyArray<string>) => ReadonlyArray<SseEvent>
}

/** The event stream of one subscription: at most one open response, until the scope closes. */
const eventStream = (http: HttpClient.HttpClient) =>
  Effect.gen(function*() {
    const subscription = yield* Effect.scope
    const scoped = HttpClient.withScope(http)
    let open: EventStream | undefined

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
          const scope = yield* Scope.fork(subscription)
          const opened = yield* restore(
            scoped.execute(requestOf(step)).pipe(
              Effect.flatMap((response): Effect.Effect<HttpResponse | Opened | NoResponse, never, Scope.Scope> =>
                isEvents(response)
                  ? Effect.gen(function*() {
                    const pull = yield* Stream.toPull(Stream.decodeText(response.stream))
                    open = { scope, pull, parse: eventParser() }
                    return { _tag: "Opened", took: yield* took }
                  })
                  : readResponse(response, took)
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

    const read = (timeout: number): Effect.Effect<Events | Closed | NoResponse> =>
      Effect.gen(function*() {
        if (open === undefined) return yield* Effect.die(unexpectedReply("Read", { _tag: "Closed", took: 0 }))
        const { parse, pull } = open
        const took = yield* stopwatch
        const reply = yield* Pull.matchEffect(pull, {
          onSuccess: (chunks) => Effect.map(took, (took): Events => ({ _tag: "Events", events: parse(chunks), took })),
          onFailure: (cause) => noResponse(took, Cause.squash(cause), false),
          onDone: () => Effect.map(took, (took): Closed => ({ _tag: "Closed", took }))
        }).pipe(Effect.timeoutOrElse({ duration: timeout, orElse: () => noResponse(took, undefined, true) }))
        if (reply._tag !== "Events") yield* closeResponse
        return reply
      })

    return { openStream, read }
  })

/** Runs a program. Each run of the effect creates a new program. */
export type Drive = <A>(program: () => Program<A>) => Effect.Effect<A, ClientError>

/** Runs programs with one `HttpClient`. */
export interface Driver {
  /** Runs a program without `OpenStream`. */
  readonly drive: Drive
  /** Runs the programs of one subscription, one after another. An open response stays open between them, until the scope closes. */
  readonly session: Effect.Effect<Drive, never, Scope.Scope>
}

const driveWith = (perform: (step: Step) => Effect.Effect<Reply>): Drive =>
  Effect.fnUntraced(function*<A>(program: () => Program<A>): Effect.fn.Return<A, ClientError> {
    const steps = program()
    // Programs throw only CallErrors. Any other exception is a bug.
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

/** The nearest span from outside the program. */
const externalSpan = (span: Tracer.AnySpan | undefined): Tracer.ExternalSpan | undefined => {
  let current = span
  while (current?._tag === "Span") current = Option.getOrUndefined(current.parent)
  return current
}

/**
 * Without a tracer that exports spans, a `traceparent` would name an unrecorded span, and its flag would make the platform and its
 * workers record every job. In that case the client sends only a span that the program itself has received.
 */
const withHonestTraceparent = (http: HttpClient.HttpClient): HttpClient.HttpClient =>
  http.pipe(
    HttpClient.mapRequestEffect((request) =>
      Effect.withFiber((fiber) => {
        const span = isExporting(fiber) ? undefined : externalSpan(fiber.cache.span)
        return Effect.succeed(
          span === undefined
            ? request
            : HttpClientRequest.setHeader(
              request,
              "traceparent",
              `00-${span.traceId}-${span.spanId}-${span.sampled ? "01" : "00"}`
            )
        )
      })
    ),
    HttpClient.transformResponse((response) =>
      Effect.withFiber((fiber) =>
        isExporting(fiber) ? response : Effect.provideService(response, HttpClient.TracerPropagationEnabled, false)
      )
    )
  )

/** Effect's native tracer exports no spans. */
const isExporting = (fiber: Fiber.Fiber<unknown, unknown>): boolean => fiber.getRef(Tracer.Tracer) !== Tracer.nativeTracer

/** Creates a driver with an `HttpClient`. */
export const make = (client: HttpClient.HttpClient): Driver => {
  const http = withHonestTraceparent(client)
  return {
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
    session: Effect.map(eventStream(http), ({ openStream, read }) =>
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
  }
}

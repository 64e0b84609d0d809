/**
 * A job's events as Server-Sent Events (contract, JobEvents.ts).
 *
 * ```
 *   JobQueue.follow --pulled--> text --pulled--> the connection
 *                      ^ no event: a comment       |
 *                      +-- backpressure: a full connection stops the pulls, so the server reads and buffers nothing
 * ```
 *
 * When there is no event for a while, the server sends the client a comment. The pull in flight continues, so no event is lost.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { type JobEventKind, RETRY_MILLIS } from "@stint/contract/JobEvents"
import { encodeEventCursor, type JobEvent } from "@stint/queue/JobEventCursor"
import * as Effect from "effect/Effect"
import { HttpServerResponse } from "effect/http"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TimedPull from "../http/TimedPull.ts"
import { jobJson } from "./JobView.ts"
import { logLineForCaller } from "./LogView.ts"

/** JSON as the `data` lines of an event. JSON may contain line breaks between tokens; a `data` line may not. */
export const dataLines = (json: string): string => `data: ${json.replaceAll(/\r\n|\r|\n/g, "\ndata: ")}`

const dataOf = (event: JobEvent, endpoint: Endpoint): string => {
  const { attempt } = event
  switch (event._tag) {
    case "Status": {
      const { job, status } = event
      const worker = status === "IN_PROGRESS" && job.worker !== null ? `,"workerId":${JSON.stringify(job.worker)}` : ""
      return `{"id":${JSON.stringify(job.id)},"status":"${status}","attempt":${attempt}${worker}}`
    }
    case "Progress":
      return `{"attempt":${attempt},"output":${event.output}}`
    case "Chunk":
      return `{"attempt":${attempt},"number":${event.number},"output":${event.output}}`
    case "Log":
      return JSON.stringify(logLineForCaller(event.line))
    case "End":
      return jobJson(event.job, endpoint)
  }
}

const KIND_OF = { Status: "status", Progress: "progress", Chunk: "chunk", Log: "log", End: "end" } as const

/** The events of the given kinds, plus the end event; all events when `kinds` is undefined. */
export const filterKinds = <E>(
  events: Stream.Stream<JobEvent, E>,
  kinds: ReadonlyArray<JobEventKind> | undefined
): Stream.Stream<JobEvent, E> =>
  kinds === undefined ? events : Stream.filter(events, ({ _tag }) => _tag === "End" || kinds.includes(KIND_OF[_tag]))

/** One event as text. */
const sseEvent = (event: JobEvent, endpoint: Endpoint): string =>
  `id: ${encodeEventCursor(event.cursor)}\nevent: ${KIND_OF[event._tag]}\n${dataLines(dataOf(event, endpoint))}\n\n`

/** A stream that emits `comment` after every `millis` without an element. */
export const withHeartbeat = <E>(events: Stream.Stream<string, E>, millis: number, comment: string): Stream.Stream<string, E> =>
  Stream.unwrap(
    Effect.map(TimedPull.make(events), (within) =>
      Stream.fromPull(Effect.succeed(Effect.map(
        within(millis),
        Option.getOrElse(() => [comment] as const)
      ))))
  )

const FIRST = `retry: ${RETRY_MILLIS}\n\n`
const ALIVE = ": alive\n\n"

const encoder = new TextEncoder()

/** A response of Server-Sent Events. An error after the first event ends the stream; the client gets the error when it reconnects. */
export const sseResponse = <E>(events: Stream.Stream<string, E>, heartbeatMs: number): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.stream(
    Stream.make(FIRST).pipe(
      Stream.concat(withHeartbeat(events, heartbeatMs, ALIVE)),
      Stream.catch((error) =>
        Stream.fromEffectDrain(
          Effect.logWarning(`An event stream was closed: ${String(error)}. The client reconnects automatically.`)
        )
      ),
      Stream.map((text) => encoder.encode(text))
    ),
    {
      contentType: "text/event-stream",
      // Without x-accel-buffering, nginx would buffer the response.
      headers: { "cache-control": "no-cache", "x-accel-buffering": "no" }
    }
  )

/** The response for one client. */
export const response = <E>(
  events: Stream.Stream<JobEvent, E>,
  endpoint: Endpoint,
  heartbeatMs: number
): HttpServerResponse.HttpServerResponse => sseResponse(Stream.map(events, (event) => sseEvent(event, endpoint)), heartbeatMs)

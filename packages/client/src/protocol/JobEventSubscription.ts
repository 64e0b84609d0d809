/**
 * Reads the events of a job from `GET events/{id}` (docs/spec/streaming.md#job-events). Reconnects without a gap and without duplicates. If the
 * platform has no such route, reads `GET stream/{id}` instead.
 *
 * ```
 *             +---- pause <--- connection lost, closed, or silent for too long
 *             v                            |
 *   GET events?lastEventId=... --200--> reading --end--> done
 *             | 404, 405, JSON, ...        | an event: emitted, and its id is the position to resume from
 *             v not a Stint problem body   v
 *   GET stream, repeatedly --job has ended--> done
 * ```
 *
 * The position is a query parameter instead of the header `Last-Event-ID`, so that web pages from other origins need no further CORS
 * permission to resume.
 */
import type { JobLogLine, Json, StreamPage } from "../ApiTypes.ts"
import { explainNoResponse, parseJson, unexpected } from "../CallError.ts"
import { type EndedJob, hasEnded } from "../JobOutcome.ts"
import { type HttpResponse, type OpenStream, type Pause, type Program, unexpectedReply } from "./DriverProtocol.ts"
import { LongPollWait, SHORTEST_WAIT } from "./LongPollWait.ts"
import {
  callError,
  callOf,
  openStream,
  type RequestContext,
  RetryState,
  sendWithRetry,
  sleep,
  type Target
} from "./RetriedRequest.ts"
import type { SseEvent } from "./SseParser.ts"

/**
 * An event of a job. `position` identifies it: pass it as `after` to read the events that follow. Undefined if the platform has no events.
 *
 * `attempt` counts how often a worker has received the job. A new attempt streams from the beginning, and its chunk numbers start at 1
 * again.
 */
export type JobEvent<Chunk = Json> =
  | {
    readonly _tag: "Status"
    readonly position: string | undefined
    readonly attempt: number
    readonly status: "IN_QUEUE" | "IN_PROGRESS"
    readonly workerId: string | undefined
  }
  /** The latest progress. The platform may skip values that are soon replaced. */
  | { readonly _tag: "Progress"; readonly position: string | undefined; readonly attempt: number; readonly output: Json }
  | {
    readonly _tag: "Chunk"
    readonly position: string | undefined
    readonly attempt: number
    readonly number: number
    readonly output: Chunk
  }
  /** A line that the handler logged or printed, or a placeholder for dropped lines (`source: "platform"`). */
  | { readonly _tag: "Log"; readonly position: string | undefined } & JobLogLine
  /** The last event: the job in its terminal status. */
  | { readonly _tag: "End"; readonly position: string | undefined; readonly job: EndedJob }

/** Which events to read. `stream` reads only statuses and chunks. */
export interface SubscribeOptions {
  readonly operation: "stream" | "events"
  /** Read the events after this `position`. Default: all events. */
  readonly after?: string | undefined
}

/** Whether a response shows that the platform has no events: it is neither a Stint problem body nor a temporary error. */
const hasNoEvents = ({ status, text }: HttpResponse): boolean => {
  if (status >= 200 && status < 300) return true
  if (status === 501) return true
  if (status < 400 || status >= 500 || status === 408 || status === 429) return false
  const json = parseJson(text)
  const type = typeof json === "object" && json !== null && "type" in json ? json.type : undefined
  return typeof type !== "string" || !type.startsWith("/problems/") || type === "/problems/route-not-found"
}

/** Decodes an event. Returns undefined for an unknown event name, and "undecodable" for invalid data. */
const decodeEvent = (target: Target, { data, event, id }: SseEvent): JobEvent | undefined | "undecodable" => {
  const { events } = target.decoders
  const json = parseJson(data)
  const position = id === "" ? undefined : id
  switch (event) {
    case "status": {
      const decoded = events.status(json)
      return decoded === undefined
        ? "undecodable"
        : { _tag: "Status", position, attempt: decoded.attempt, status: decoded.status, workerId: decoded.workerId }
    }
    case "progress": {
      const decoded = events.progress(json)
      return decoded === undefined ? "undecodable" : { _tag: "Progress", position, ...decoded }
    }
    case "chunk": {
      const decoded = events.chunk(json)
      return decoded === undefined ? "undecodable" : { _tag: "Chunk", position, ...decoded }
    }
    case "log": {
      const decoded = events.log(json)
      return decoded === undefined ? "undecodable" : { _tag: "Log", position, ...decoded }
    }
    case "end": {
      const job = events.end(json)
      return job === undefined || !hasEnded(job) ? "undecodable" : { _tag: "End", position, job }
    }
    default:
      return undefined
  }
}

/** Returns a function that converts the pages of `stream`, in order, to events. Each call returns the events since the previous page. */
const pageReader = () => {
  let attempt = 0
  let number = 0
  let lastStatus = ""
  let lastProgress = ""
  return ({ stream, ...job }: StreamPage): ReadonlyArray<JobEvent> => {
    const events: Array<JobEvent> = []
    const position = undefined
    const ended = hasEnded(job) ? job : undefined
    // `retries` counts the lost attempts; a job that is IN_QUEUE has not started its next attempt.
    const attempts = (job.retries ?? 0) + (job.status === "IN_QUEUE" ? 0 : 1)
    if (job.status !== "IN_QUEUE" && attempts !== attempt) number = 0
    attempt = attempts
    if (job.status === "IN_QUEUE" || job.status === "IN_PROGRESS") {
      const status = `${job.status} ${attempt} ${job.workerId ?? ""}`
      if (status !== lastStatus) events.push({ _tag: "Status", position, attempt, status: job.status, workerId: job.workerId })
      lastStatus = status
    }
    for (const { output } of stream) {
      number += 1
      events.push({ _tag: "Chunk", position, attempt, number, output })
    }
    if (ended !== undefined) return [...events, { _tag: "End", position, job: ended }]
    if (job.status === "IN_PROGRESS" && job.output !== undefined) {
      const progress = JSON.stringify(job.output)
      if (progress !== lastProgress) events.push({ _tag: "Progress", position, attempt, output: job.output })
      lastProgress = progress
    }
    return events
  }
}

/**
 * Reads a job's `stream` until the job ends. Each program returns the events of the next pages. The platform returns each chunk only once
 * (docs/spec/streaming.md#draining-chunks), so the chunks of a lost response are gone, and the program fails.
 */
const pollStream = (target: Target, id: string, operation: string): () => Program<ReadonlyArray<JobEvent>> => {
  const wait = new LongPollWait(target.wait)
  const readPage = pageReader()
  let pause: Pause | undefined
  return function*() {
    while (true) {
      if (pause !== undefined) yield* sleep(pause)
      const { took, value } = yield* sendWithRetry({
        target,
        callInfo: { operation, job: id },
        call: () => callOf(target, "GET", `stream/${encodeURIComponent(id)}`, { wait: wait.millis }),
        decode: target.decoders.page,
        repeat: "once",
        retryFor: target.reconnectFor,
        uncertaintyHint:
          "Chunks in the lost response cannot be read again. The job continues: ask for its result, or stream its next chunks."
      })
      pause = hasEnded(value) ? undefined : wait.pauseBeforeNext(took, value.stream.length > 0)
      const events = readPage(value)
      if (events.length > 0) return events
    }
  }
}

/**
 * Follows a job until it ends. Each program returns the next events, at least one. The last event is `End`; after it, programs return
 * undefined. So does the first program if `after` is the position of `End`.
 */
export const subscribe = (
  target: Target,
  id: string,
  { after, operation }: SubscribeOptions
): () => Program<ReadonlyArray<JobEvent> | undefined> => {
  const context: RequestContext = {
    target,
    callInfo: { operation, job: id },
    repeat: "repeatable",
    retryFor: target.reconnectFor,
    uncertaintyHint: "The job continues: follow it again, or ask for its result."
  }
  /** A connection without events or heartbeats for this long is treated as lost. */
  const silenceTimeout = target.timeout + target.wait
  const retryState = new RetryState()
  let lastEventId = after
  let isConnected = false
  /** The age of the connection. Milliseconds. */
  let connectedFor = 0
  /** Set when the platform has no events. */
  let poll: (() => Program<ReadonlyArray<JobEvent>>) | undefined
  let isDone = false

  const request = (): OpenStream => {
    const call = callOf(target, "GET", `events/${encodeURIComponent(id)}`)
    const query = [
      ...(operation === "stream" ? ["events=status,chunk"] : []),
      ...(lastEventId === undefined ? [] : [`lastEventId=${encodeURIComponent(lastEventId)}`])
    ]
    return {
      ...call,
      _tag: "OpenStream",
      url: query.length === 0 ? call.url : `${call.url}?${query.join("&")}`,
      headers: { ...call.headers, accept: "text/event-stream" }
    }
  }

  const decodeEvents = (received: ReadonlyArray<SseEvent>): ReadonlyArray<JobEvent> => {
    const events: Array<JobEvent> = []
    for (const one of received) {
      const event = decodeEvent(target, one)
      if (event === "undecodable") {
        throw callError(
          context,
          unexpected(
            { status: 200, text: one.data },
            `The data of the event "${one.event}" is invalid.`,
            "Check that client and platform have compatible versions."
          )
        )
      }
      if (one.id !== "") lastEventId = one.id
      if (event !== undefined) events.push(event)
    }
    return events
  }

  function* connect(): Program<void> {
    const opened = yield* openStream(context, retryState, request, hasNoEvents)
    if (opened._tag === "Opened") {
      isConnected = true
      connectedFor = 0
    } else if (opened.status === 204 && lastEventId !== undefined) {
      isDone = true
    } else {
      poll = pollStream(target, id, operation)
    }
  }

  /** Reads from the open connection. Returns no events, after a pause, if the connection is lost. */
  function* readEvents(): Program<ReadonlyArray<JobEvent>> {
    const reply = yield { _tag: "Read", timeout: silenceTimeout }
    if (reply._tag !== "Events" && reply._tag !== "NoResponse" && reply._tag !== "Closed") throw unexpectedReply("Read", reply)
    connectedFor += reply.took
    if ((reply._tag === "Events" && reply.events.length > 0) || connectedFor >= SHORTEST_WAIT) retryState.reset()
    if (reply._tag === "Events") return decodeEvents(reply.events)
    isConnected = false
    const failure = reply._tag === "NoResponse" ? reply : { ...reply, cause: new Error("closed before the end"), timedOut: false }
    yield* retryState.pauseOrThrow(context, explainNoResponse(failure), reply)
    return []
  }

  return function*() {
    while (!isDone) {
      if (poll === undefined && !isConnected) yield* connect()
      const events = poll !== undefined ? yield* poll() : isConnected ? yield* readEvents() : []
      isDone ||= events.at(-1)?._tag === "End"
      if (events.length > 0) return events
    }
    return undefined
  }
}

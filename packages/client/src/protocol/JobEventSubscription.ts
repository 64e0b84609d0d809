/**
 * What happens to a job, as it happens: `GET events/{id}` (contract, JobEvents.ts), over cut connections without a gap and without a
 * repeat; where the platform has no such route, what `GET stream/{id}` shows.
 *
 * ```
 *             +---- pause <--- cut off, closed, nothing for too long
 *             v                            |
 *   GET events?lastEventId=place --200--> reading --end--> over
 *             | 404, 405, JSON, ...        | an event: told, and its id is the place
 *             v not a word of a Stint      v
 *   GET stream, again and again --ended--> over
 * ```
 *
 * The place is sent in the query, not as `Last-Event-ID`: a page of another origin may then go on wherever it may begin.
 */
import type { StreamPage } from "@stint/contract/Job"
import type { JobLogLine } from "@stint/contract/JobLogLine"
import type { Json } from "@stint/contract/Json"
import { explainNoResponse, parseJson, unexpected } from "../CallError.ts"
import { type EndedJob, hasEnded } from "../JobOutcome.ts"
import { type HttpResponse, type OpenStream, type Pause, type Program, unexpectedReply } from "./DriverProtocol.ts"
import {
  callOf,
  failure,
  LongPollWait,
  openStream,
  type RequestContext,
  RetryState,
  sendWithRetry,
  SHORTEST_WAIT,
  sleep,
  type Target
} from "./RetriedRequest.ts"
import { type SseEvent, SseParser } from "./SseParser.ts"

/**
 * One thing that happened to a job. `position` is where a reader goes on from after it; undefined where the platform has no events.
 *
 * `attempt` counts how often the job was handed to a worker. A new attempt streams from its beginning: its chunks count from 1 again.
 */
export type JobEvent<Chunk = Json> =
  | {
    readonly _tag: "Status"
    readonly position: string | undefined
    readonly attempt: number
    readonly status: "IN_QUEUE" | "IN_PROGRESS"
    readonly workerId: string | undefined
  }
  /** The latest progress; values that came in quick succession are left out. */
  | { readonly _tag: "Progress"; readonly position: string | undefined; readonly attempt: number; readonly output: Json }
  | {
    readonly _tag: "Chunk"
    readonly position: string | undefined
    readonly attempt: number
    readonly number: number
    readonly output: Chunk
  }
  /** A line that its handler logged or printed, or one that stands for lines that were dropped (`source: "platform"`). */
  | { readonly _tag: "Log"; readonly position: string | undefined } & JobLogLine
  /** The last one. The job as it ended, well or badly. */
  | { readonly _tag: "End"; readonly position: string | undefined; readonly job: EndedJob }

/** Where and what to follow. */
export interface SubscribeOptions {
  readonly operation: "stream" | "events"
  /** The `position` of the last event that is known. Default: from the beginning. */
  readonly after?: string | undefined
}

/** Whether an answer shows that the platform has no events: it is no refusal of a Stint, and no trouble that passes. */
const hasNoEvents = ({ status, text }: HttpResponse): boolean => {
  if (status >= 200 && status < 300) return true
  if (status === 501) return true
  if (status < 400 || status >= 500 || status === 408 || status === 429) return false
  const json = parseJson(text)
  const type = typeof json === "object" && json !== null && "type" in json ? json.type : undefined
  return typeof type !== "string" || !type.startsWith("/problems/") || type === "/problems/route-not-found"
}

/** What an event says; undefined for one of a kind that this client does not know, `unread` for one that says something else. */
const eventOf = (target: Target, { data, event, id }: SseEvent): JobEvent | undefined | "unread" => {
  const { events } = target.decoders
  const json = parseJson(data)
  const position = id === "" ? undefined : id
  switch (event) {
    case "status": {
      const read = events.status(json)
      return read === undefined
        ? "unread"
        : { _tag: "Status", position, attempt: read.attempt, status: read.status, workerId: read.workerId }
    }
    case "progress": {
      const read = events.progress(json)
      return read === undefined ? "unread" : { _tag: "Progress", position, ...read }
    }
    case "chunk": {
      const read = events.chunk(json)
      return read === undefined ? "unread" : { _tag: "Chunk", position, ...read }
    }
    case "log": {
      const read = events.log(json)
      return read === undefined ? "unread" : { _tag: "Log", position, ...read }
    }
    case "end": {
      const job = events.end(json)
      return job === undefined || !hasEnded(job) ? "unread" : { _tag: "End", position, job }
    }
    default:
      return undefined
  }
}

/** What a page of `stream` shows that the pages before it did not. */
const pageReader = () => {
  let attempt = 0
  let number = 0
  let state = ""
  let progress = ""
  return ({ stream, ...job }: StreamPage): ReadonlyArray<JobEvent> => {
    const told: Array<JobEvent> = []
    const position = undefined
    const ended = hasEnded(job) ? job : undefined
    // A job that waits after an attempt was lost has had that many.
    const tries = (job.retries ?? 0) + (job.status === "IN_QUEUE" ? 0 : 1)
    if (job.status !== "IN_QUEUE" && tries !== attempt) number = 0
    attempt = tries
    if (job.status === "IN_QUEUE" || job.status === "IN_PROGRESS") {
      const now = `${job.status} ${attempt} ${job.workerId ?? ""}`
      if (now !== state) told.push({ _tag: "Status", position, attempt, status: job.status, workerId: job.workerId })
      state = now
    }
    for (const { output } of stream) {
      number += 1
      told.push({ _tag: "Chunk", position, attempt, number, output })
    }
    if (ended !== undefined) return [...told, { _tag: "End", position, job: ended }]
    if (job.status === "IN_PROGRESS" && job.output !== undefined) {
      const now = JSON.stringify(job.output)
      if (now !== progress) told.push({ _tag: "Progress", position, attempt, output: job.output })
      progress = now
    }
    return told
  }
}

/**
 * Reads a job's stream to its end: each program is what the next pages show. Every chunk is given to one reader only
 * (docs/spec/streaming.md#draining-chunks), and
 * an answer that is lost takes its chunks with it.
 */
const pollStream = (target: Target, id: string, operation: string): () => Program<ReadonlyArray<JobEvent>> => {
  const hold = new LongPollWait(target.wait)
  const read = pageReader()
  let pause: Pause | undefined
  return function*() {
    while (true) {
      if (pause !== undefined) yield* sleep(pause)
      const { took, value } = yield* sendWithRetry({
        target,
        callInfo: { operation, job: id },
        call: () => callOf(target, "GET", `stream/${encodeURIComponent(id)}`, { hold: hold.millis }),
        read: target.decoders.page,
        repeat: "once",
        retryFor: target.reconnectFor,
        uncertaintyHint:
          "Chunks that were on their way are lost. The job goes on: its result can be asked for, and what it still streams."
      })
      pause = hasEnded(value) ? undefined : hold.pauseBeforeNext(took, value.stream.length > 0)
      const told = read(value)
      if (told.length > 0) return told
    }
  }
}

/**
 * Follows a job to its end: each program is what happens next, one thing or more. The last thing is `End`; after it, and at once for a
 * reader whose `after` is the end, there is undefined.
 */
export const subscribe = (
  target: Target,
  id: string,
  { after, operation }: SubscribeOptions
): () => Program<ReadonlyArray<JobEvent> | undefined> => {
  const attempt: RequestContext = {
    target,
    callInfo: { operation, job: id },
    repeat: "repeatable",
    retryFor: target.reconnectFor,
    uncertaintyHint: "The job goes on without this reader: follow it again, or ask for its result."
  }
  /** Nothing for so long, heartbeats included, is a lost connection. */
  const silenceTimeout = target.timeout + target.wait
  const retryState = new RetryState()
  let lastEventId = after
  /** Of the open connection. */
  let incoming: SseParser | undefined
  let lived = 0
  /** Where the platform has no events. */
  let poll: (() => Program<ReadonlyArray<JobEvent>>) | undefined
  let over = false

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

  const told = (sent: ReadonlyArray<SseEvent>): ReadonlyArray<JobEvent> => {
    const events: Array<JobEvent> = []
    for (const one of sent) {
      const event = eventOf(target, one)
      if (event === "unread") {
        throw failure(
          attempt,
          unexpected(
            { status: 200, text: one.data },
            `The event "${one.event}" is not what a platform says.`,
            "The platform may be of another version."
          )
        )
      }
      if (one.id !== "") lastEventId = one.id
      if (event !== undefined) events.push(event)
    }
    return events
  }

  /** Opens the stream of events, or finds out that there is none. */
  function* open(): Program<void> {
    const opened = yield* openStream(attempt, retryState, request, hasNoEvents)
    if (opened._tag === "Opened") {
      incoming = new SseParser()
      lived = 0
    } else if (opened.status === 204 && lastEventId !== undefined) {
      over = true
    } else {
      poll = pollStream(target, id, operation)
    }
  }

  /** What the next part of the open answer tells; nothing, if the connection is lost, after a pause. */
  function* listening(events: SseParser): Program<ReadonlyArray<JobEvent>> {
    const reply = yield { _tag: "Read", timeout: silenceTimeout }
    if (reply._tag !== "Part" && reply._tag !== "NoResponse" && reply._tag !== "Closed") throw unexpectedReply("Read", reply)
    lived += reply.took
    const sent = reply._tag === "Part" ? events.feed(reply.text) : []
    if (sent.length > 0 || lived >= SHORTEST_WAIT) retryState.over()
    if (reply._tag === "Part") return told(sent)
    incoming = undefined
    const silence = reply._tag === "NoResponse" ? reply : { ...reply, cause: new Error("closed before the end"), timedOut: false }
    yield* retryState.after(attempt, explainNoResponse(silence), reply)
    return []
  }

  return function*() {
    while (!over) {
      if (poll === undefined && incoming === undefined) yield* open()
      const events = poll !== undefined ? yield* poll() : incoming !== undefined ? yield* listening(incoming) : []
      over ||= events.at(-1)?._tag === "End"
      if (events.length > 0) return events
    }
    return undefined
  }
}

/**
 * Converts a job's events to a response for an OpenAI client (docs/spec/openai-route.md#responses-without-a-stream). Pure.
 *
 * ```
 *   not streamed   value                     value
 *                  [value], or one chunk     value
 *                  text that is JSON         that JSON
 *                  several chunks            502: the request did not ask for a stream
 *
 *   streamed       chunk that is text        unchanged: the handler writes the events, split across chunks or joined
 *                  text that is JSON alone   data: {...}
 *                  any other chunk           data: {...}, and data: [DONE] at the end
 *                  no chunk, a value         data: {...}, data: [DONE]
 *                  failed, lost, cut off     data: {"error": ...}
 * ```
 *
 * A stream covers one attempt. Chunks that were already sent cannot be taken back when their attempt is lost, and the next attempt would
 * produce chunks with other content. So the stream ends with an error when an attempt is lost after its first chunk.
 */
import type { JobEvent } from "@stint/queue/JobEventCursor"
import type { JobReport } from "@stint/store/JobRecord"
import * as Predicate from "effect/Predicate"
import { dataLines } from "../jobs/JobEventStream.ts"
import { ofError, ofJob, ofValue, type OpenAiErrorResponse, textOf } from "./OpenAiErrorResponse.ts"

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The text of a JSON array's only element. */
const onlyElement = (array: string): string => array.trim().slice(1, -1).trim()

/** Whether a text is exactly one JSON object or array. */
const isStructure = (text: string): boolean => /^\s*[[{]/.test(text) && Predicate.isObjectOrArray(parse(text))

/** The JSON text of a response, or the failure. */
export type Answer = { readonly text: string } | { readonly failure: OpenAiErrorResponse }

/** A handler's output as JSON text. Unwraps a list of one element and a string of JSON. */
const answerOf = (output: string): Answer => {
  let text = output
  let value = parse(text)
  if (Array.isArray(value) && value.length === 1) {
    text = onlyElement(text)
    value = value[0]
  }
  if (Predicate.isString(value) && isStructure(value)) {
    text = value
    value = parse(value)
  }
  const failure = ofValue(value)
  return failure === undefined ? { text } : { failure }
}

/** The chunks received for a request without a stream: their number and the first one. */
export interface CollectedChunks {
  readonly chunks: number
  readonly first: string | undefined
}

/** No chunks. */
export const NO_CHUNKS: CollectedChunks = { chunks: 0, first: undefined }

/** Whether an event begins an attempt without the chunks of the previous one. The attempts of a pipeline's run continue each other. */
const discardsChunks = ({ _tag, cursor }: JobEvent): boolean => _tag === "Status" && cursor.chunk === 0

/** Adds an event. A new attempt discards the chunks of the previous attempt. */
export const collect = (collected: CollectedChunks, event: JobEvent): CollectedChunks => {
  if (discardsChunks(event)) return NO_CHUNKS
  return event._tag === "Chunk" ? { chunks: collected.chunks + 1, first: collected.first ?? event.output } : collected
}

const tooMany = (job: JobReport, chunks: number): OpenAiErrorResponse => ({
  status: 502,
  error: {
    message: `The handler of job ${job.id} streamed ${chunks} chunks, but the request did not ask for a stream. ` +
      "Change the handler to yield one object unless openai_input.stream is true, or send \"stream\": true.",
    type: "server_error",
    param: "stream",
    code: "unexpected_stream"
  },
  final: true
})

const isEmptyList = (output: string): boolean => /^\s*\[\s*\]\s*$/.test(output)

/** The response for a job that has ended. */
export const answer = (job: JobReport, { chunks, first }: CollectedChunks): Answer => {
  const failure = ofJob(job)
  if (failure !== undefined) return { failure }
  if (chunks > 1) return { failure: tooMany(job, chunks) }
  // A generator without return_aggregate_stream ends with an empty list (docs/spec/worker-protocol.md#result-bodies).
  const output = job.output === null || (isEmptyList(job.output) && first !== undefined) ? first : job.output
  return output === undefined ? { text: "{}" } : answerOf(output)
}

/** How much of a stream has been sent. */
export interface StreamState {
  /** The number of chunks sent. */
  readonly chunks: number
  /** Whether the server has formatted a chunk as an event. If so, the server also sends the end mark. */
  readonly wrapped: boolean
  /** The last part of the text sent so far. It shows whether an event is incomplete and whether the end mark was sent. */
  readonly tail: string
}

/** A stream before its first chunk. */
export const EMPTY_STREAM: StreamState = { chunks: 0, wrapped: false, tail: "" }

/** The next text to send. `ended`: nothing follows. `failure`: why the stream failed; `text` already contains it. */
export interface StreamStep {
  readonly state: StreamState
  readonly text: string
  readonly ended: boolean
  readonly failure?: OpenAiErrorResponse
}

const DONE = "data: [DONE]\n\n"

/** Long enough for the end mark, however it is written. */
const TAIL = 32

const endsWithDone = (tail: string): boolean => /(?:^|[\r\n])data: ?\[DONE\]\s*$/.test(tail)

/** Whether the stream is between events. */
const isBetween = (tail: string): boolean => tail === "" || /(?:\n\n|\r\n\r\n|\r\r)$/.test(tail)

/** Completes an event that the handler left incomplete. */
const closing = (tail: string): string => isBetween(tail) ? "" : "\n\n"

const eventOf = (json: string): string => `${dataLines(json)}\n\n`

const advance = (state: StreamState, text: string, wrapped: boolean): StreamState => ({
  chunks: state.chunks + 1,
  wrapped: state.wrapped || wrapped,
  tail: (state.tail + text).slice(-TAIL)
})

const chunk = (state: StreamState, json: string): StreamStep => {
  const value = parse(json)
  const wrapped = (json: string): StreamStep => {
    const text = closing(state.tail) + eventOf(json)
    return { state: advance(state, text, true), text, ended: false }
  }
  if (!Predicate.isString(value)) return wrapped(json)
  // No line of an event starts with `{` or `[`, so the chunk is JSON that the handler did not format as an event.
  if (isBetween(state.tail) && isStructure(value)) return wrapped(value.trim())
  return { state: advance(state, value, false), text: value, ended: false }
}

/** Ends a stream with a failure. */
export const fail = (state: StreamState, failure: OpenAiErrorResponse): StreamStep => ({
  state,
  text: `${closing(state.tail)}${eventOf(textOf(failure))}`,
  ended: true,
  failure
})

const done = (state: StreamState): string => state.wrapped && !endsWithDone(state.tail) ? closing(state.tail) + DONE : ""

const completed = (state: StreamState, job: JobReport): StreamStep => {
  if (state.chunks > 0 || job.output === null) return { state, text: done(state), ended: true }
  // A handler that returned a value: send it. If the value is a list, its elements are the chunks that a generator would have streamed.
  const value = parse(job.output)
  const parts = Array.isArray(value) ? value.map((one) => JSON.stringify(one)) : [job.output]
  const [only] = parts
  const error = parts.length === 1 && only !== undefined ? answerOf(only) : undefined
  if (error !== undefined && "failure" in error) return fail(state, error.failure)
  let step: StreamStep = { state, text: "", ended: true }
  for (const part of parts) {
    const next = chunk(step.state, part)
    step = { state: next.state, text: step.text + next.text, ended: true }
  }
  return { ...step, text: step.text + done(step.state) }
}

/** The first line of the previous attempt's error, as part of a sentence. */
const causeOf = ({ lastError }: JobReport): string => {
  const [line = ""] = lastError === null ? [] : ofError(lastError).error.message.split("\n", 1)
  // An exception that was cut off in the middle cannot be parsed.
  return line === "" || line.startsWith("{") ? "" : `: ${line.replace(/\.$/, "")}`
}

const lost = (job: JobReport): OpenAiErrorResponse => ({
  status: 502,
  error: {
    message: `The worker of job ${job.id} was lost after part of the response was sent${causeOf(job)}. ` +
      "Send the request again for a complete response.",
    type: "server_error",
    param: null,
    code: "attempt_lost"
  }
})

/** Advances the stream by one event. */
export const nextStep = (state: StreamState, event: JobEvent): StreamStep => {
  switch (event._tag) {
    case "Status":
      return state.chunks === 0 || !discardsChunks(event) ? { state, text: "", ended: false } : fail(state, lost(event.job))
    case "Chunk":
      return chunk(state, event.output)
    case "End": {
      const failure = ofJob(event.job)
      return failure === undefined ? completed(state, event.job) : fail(state, failure)
    }
    default:
      return { state, text: "", ended: false }
  }
}

/** A comment that keeps an idle connection open; empty while the handler has an incomplete line. */
export const keepAlive = ({ tail }: StreamState): string => {
  if (isBetween(tail)) return ": alive\n\n"
  return /[\r\n]$/.test(tail) ? ": alive\n" : ""
}

/**
 * What a job says to an OpenAI client, from what the queue tells of it (docs/spec/openai-route.md#responses-without-a-stream). Pure.
 *
 * ```
 *   not streamed   value                     value
 *                  [value], or one chunk     value
 *                  text that is JSON         that JSON
 *                  several chunks            502: nobody asked for a stream
 *
 *   streamed       chunk that is text        as it is: the handler writes the events, split or joined as it likes
 *                  text that is JSON alone   data: {...}
 *                  any other chunk           data: {...}, and data: [DONE] at the end
 *                  no chunk, a value         data: {...}, data: [DONE]
 *                  failed, lost, cut off     data: {"error": ...}
 * ```
 *
 * A stream is one attempt. What a lost attempt has said cannot be taken back, and the next one would say it again, in other words: so the
 * stream ends with an error, unless nothing was said yet.
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

/** The text of the only element of a JSON array, cut out of the array's text. */
const onlyElement = (array: string): string => array.trim().slice(1, -1).trim()

/** An object or an array, in a text that holds nothing else. */
const isStructure = (text: string): boolean => /^\s*[[{]/.test(text) && Predicate.isObjectOrArray(parse(text))

/** Either the JSON text of an answer, or why there is none. */
export type Answer = { readonly text: string } | { readonly failure: OpenAiErrorResponse }

/** A value that a handler produced, as JSON text: out of its list, and out of its string. */
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

/** What was heard of a job that nobody asked to stream: how many chunks there are, and the first. */
export interface CollectedChunks {
  readonly chunks: number
  readonly first: string | undefined
}

/** Nothing yet. */
export const NO_CHUNKS: CollectedChunks = { chunks: 0, first: undefined }

/** One telling more; an attempt that was lost was never heard. */
export const collect = (collected: CollectedChunks, event: JobEvent): CollectedChunks => {
  if (event._tag === "Status") return NO_CHUNKS
  return event._tag === "Chunk" ? { chunks: collected.chunks + 1, first: collected.first ?? event.output } : collected
}

const tooMany = (job: JobReport, chunks: number): OpenAiErrorResponse => ({
  status: 502,
  error: {
    message: `The handler of job ${job.id} streamed ${chunks} chunks for a request that asked for one answer. ` +
      "Let it yield one object unless openai_input.stream is true, or send \"stream\": true.",
    type: "server_error",
    param: "stream",
    code: "unexpected_stream"
  },
  final: true
})

const isEmptyList = (output: string): boolean => /^\s*\[\s*\]\s*$/.test(output)

/** The answer of a job that has ended. */
export const answer = (job: JobReport, { chunks, first }: CollectedChunks): Answer => {
  const failure = ofJob(job)
  if (failure !== undefined) return { failure }
  if (chunks > 1) return { failure: tooMany(job, chunks) }
  // A generator whose chunks nobody collected ends with an empty list (docs/spec/worker-protocol.md#result-bodies).
  const output = job.output === null || (isEmptyList(job.output) && first !== undefined) ? first : job.output
  return output === undefined ? { text: "{}" } : answerOf(output)
}

/** How far a stream is. */
export interface StreamState {
  /** How many chunks were passed on. */
  readonly chunks: number
  /** One of them was put into an event here, so that the end is told here too. */
  readonly wrapped: boolean
  /** The last bit of what was passed on: whether an event is open, and whether the end was told. */
  readonly tail: string
}

/** Nothing yet. */
export const EMPTY_STREAM: StreamState = { chunks: 0, wrapped: false, tail: "" }

/** What to pass on. `over`: nothing follows; `failure`: why it ended so, told in `text` already. */
export interface StreamStep {
  readonly state: StreamState
  readonly text: string
  readonly over: boolean
  readonly failure?: OpenAiErrorResponse
}

const DONE = "data: [DONE]\n\n"

/** Long enough for the end mark, however it is written. */
const TAIL = 32

const endsWithDone = (tail: string): boolean => /(?:^|[\r\n])data: ?\[DONE\]\s*$/.test(tail)

/** Whether the next text begins an event. */
const isBetween = (tail: string): boolean => tail === "" || /(?:\n\n|\r\n\r\n|\r\r)$/.test(tail)

/** Ends the event that a handler has left open. */
const closing = (tail: string): string => isBetween(tail) ? "" : "\n\n"

const eventOf = (json: string): string => `${dataLines(json)}\n\n`

const more = (state: StreamState, text: string, wrapped: boolean): StreamState => ({
  chunks: state.chunks + 1,
  wrapped: state.wrapped || wrapped,
  tail: (state.tail + text).slice(-TAIL)
})

const chunk = (state: StreamState, json: string): StreamStep => {
  const value = parse(json)
  const wrapped = (json: string): StreamStep => {
    const text = closing(state.tail) + eventOf(json)
    return { state: more(state, text, true), text, over: false }
  }
  if (!Predicate.isString(value)) return wrapped(json)
  // No line of an event begins like this: it is a chunk's JSON that was not put into an event.
  if (isBetween(state.tail) && isStructure(value)) return wrapped(value.trim())
  return { state: more(state, value, false), text: value, over: false }
}

/** The end of a stream by a failure. */
export const fail = (state: StreamState, failure: OpenAiErrorResponse): StreamStep => ({
  state,
  text: `${closing(state.tail)}${eventOf(textOf(failure))}`,
  over: true,
  failure
})

const done = (state: StreamState): string => state.wrapped && !endsWithDone(state.tail) ? closing(state.tail) + DONE : ""

const completed = (state: StreamState, job: JobReport): StreamStep => {
  if (state.chunks > 0 || job.output === null) return { state, text: done(state), over: true }
  // A handler that returned: its value is all there is to say, and a list of them are the chunks that it would have streamed.
  const value = parse(job.output)
  const parts = Array.isArray(value) ? value.map((one) => JSON.stringify(one)) : [job.output]
  const [only] = parts
  const error = parts.length === 1 && only !== undefined ? answerOf(only) : undefined
  if (error !== undefined && "failure" in error) return fail(state, error.failure)
  let step: StreamStep = { state, text: "", over: true }
  for (const part of parts) {
    const next = chunk(step.state, part)
    step = { state: next.state, text: step.text + next.text, over: true }
  }
  return { ...step, text: step.text + done(step.state) }
}

/** Why the attempt before came to nothing, in a line. */
const causeOf = ({ lastError }: JobReport): string => {
  const [line = ""] = lastError === null ? [] : ofError(lastError).error.message.split("\n", 1)
  // An exception that was cut off in the middle is nothing to read.
  return line === "" || line.startsWith("{") ? "" : `: ${line.replace(/\.$/, "")}`
}

const lost = (job: JobReport): OpenAiErrorResponse => ({
  status: 502,
  error: {
    message: `The worker of job ${job.id} was lost after a part of the answer was sent${causeOf(job)}. ` +
      "Send the request again for a whole answer.",
    type: "server_error",
    param: null,
    code: "attempt_lost"
  }
})

/** One telling more. */
export const nextStep = (state: StreamState, event: JobEvent): StreamStep => {
  switch (event._tag) {
    case "Status":
      return state.chunks === 0 ? { state, text: "", over: false } : fail(state, lost(event.job))
    case "Chunk":
      return chunk(state, event.output)
    case "End": {
      const failure = ofJob(event.job)
      return failure === undefined ? completed(state, event.job) : fail(state, failure)
    }
    default:
      return { state, text: "", over: false }
  }
}

/** What to send while the job says nothing; nothing where the handler has left a line open. */
export const keepAlive = ({ tail }: StreamState): string => {
  if (isBetween(tail)) return ": alive\n\n"
  return /[\r\n]$/.test(tail) ? ": alive\n" : ""
}

/**
 * Describes what a parked run waits for (docs/spec/jobs-api.md#explaining-a-job). Pure.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { RunPhase } from "@stint/contract/RunJournal"
import type { RunStep } from "@stint/contract/RunSteps"
import { excerpt } from "../http/ProblemJson.ts"
import { span } from "../jobs/TimeSpan.ts"

/** What is known about a parked run. */
export interface ParkedRun {
  /** The hash of the definition that it follows. */
  readonly definition: string
  readonly phase: RunPhase
  /** Why it waits for a worker with another definition; null if it does not. */
  readonly held: string | null
  /** The open steps, in the order in which they began. */
  readonly steps: ReadonlyArray<RunStep>
  /** Whether there are more open steps. */
  readonly more: boolean
}

/** The maximum number of open steps in an explanation. */
export const MOST_STEPS = 20

/** The maximum number of open steps that the text names. */
const MOST_NAMED = 3

const timeText = (millis: number, now: number): string => `${new Date(millis).toISOString()}, in ${span(millis - now)}`

/** What one step waits for, as a part of a sentence. */
const phrase = ({ endpoint, event, job, path, until }: RunStep, now: number): string => {
  const limit = until === undefined ? "" : ` (until ${timeText(until, now)})`
  if (event !== undefined) {
    const key = event.key === "" ? "without a key" : `with key "${excerpt(event.key)}"`
    return `the event "${excerpt(event.name)}" ${key}${limit}`
  }
  if (job !== undefined) return `job ${excerpt(job)} of the endpoint "${excerpt(endpoint ?? "")}"${limit}`
  return `the end of the sleep "${excerpt(path)}"${until === undefined ? "" : ` (at ${timeText(until, now)})`}`
}

/** How many characters of a hash identify a definition in a text. */
const SHORT_HASH = 12

/** Why a run waits for another definition, and what to do. A run that is running its compensations cannot be retried or cancelled again. */
const heldWords = (held: string, { definition, phase }: ParkedRun, endpoint: EndpointId, run: JobId): string =>
  `${held} It follows the definition ${
    definition.slice(0, SHORT_HASH)
  }. Every minute it returns to the queue, until a worker whose definition ` +
  "fits takes it. To finish it as it began, let a worker of the earlier release run, for example after " +
  `\`stint rollback ${endpoint}\`.` +
  (phase === "undoing" ? "" : " To continue it with the new definition, discard its records from that node on: " +
    `POST /v2/${endpoint}/retry/${run}?from=NODE. Or cancel it: POST /v2/${endpoint}/cancel/${run}.`)

/** The explanation of a parked run. */
export const parkedWords = (parked: ParkedRun, endpoint: EndpointId, run: JobId, now: number): string => {
  const { held, more, phase, steps } = parked
  if (held !== null) return heldWords(held, parked, endpoint, run)
  const subject = phase === "undoing" ? "It was cancelled, is running its compensations," : "It has recorded its progress"
  if (steps.length === 0) return `${subject} and is about to continue.`
  const named = steps.slice(0, MOST_NAMED).map((step) => phrase(step, now)).join(", ")
  const others = steps.length - MOST_NAMED
  const rest = others > 0 ? ` and ${more ? "more than " : ""}${others} more` : ""
  const send = steps.some(({ event }) => event !== undefined) ? ` Send an event with POST /v2/${endpoint}/events.` : ""
  return `${subject} and waits, without a worker, for ${named}${rest}.${send}`
}

/**
 * The steps of a run as text: a table of all, in which a step with several attempts is one row, and one step with everything that is known about it.
 */
import { nodeOf } from "@stint/contract/NodeAddress"
import type { RunStep, StepAttempt } from "@stint/contract/RunSteps"
import * as Output from "./Output.ts"

/** A time in UTC. `millis`: since 1970. */
const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

/** How many characters of an output the table shows. */
const MOST_OUTPUT = 60

/** How many characters of an input or an output a single step shows. */
const MOST_VALUE = 4_000

const firstLine = (text: string): string => text.split("\n", 1)[0] ?? ""

/** The last column: what an open step waits for, or how it ended. */
const noteOf = (
  { attempts = [], endpoint, error, event, job, kind, nextAttemptAt, output, state, until }: RunStep
): string => {
  const last = attempts.findLast((one) => one.error !== undefined)
  return [
    ...(attempts.length === 0 ? [] : [`attempt ${attempts.at(-1)?.attempt ?? ""}`]),
    ...(error === undefined ? [] : [firstLine(error)]),
    ...(error !== undefined || job === undefined ? [] : [`job ${job} of ${endpoint ?? ""}`]),
    ...(event === undefined ? [] : [`event ${event.name}${event.key === "" ? "" : `, key ${event.key}`}`]),
    ...(until === undefined || state !== "open" || nextAttemptAt !== undefined ? [] : [`until ${timeText(until)}`]),
    ...(nextAttemptAt === undefined ? [] : [`next at ${timeText(nextAttemptAt)}`]),
    ...(state !== "open" || last?.error === undefined ? [] : [`after: ${firstLine(last.error)}`]),
    ...(output === undefined || (kind === "undo" && output === null) ? [] : [JSON.stringify(output).slice(0, MOST_OUTPUT)])
  ].join(", ")
}

/** How long something that ended took. Steps of workers that report no times have only an end. */
const tookText = ({ endedAt, startedAt }: Pick<RunStep, "endedAt" | "startedAt">): string =>
  endedAt === undefined
    ? "-"
    : startedAt === undefined
    ? `ended ${timeText(endedAt)}`
    : `${((endedAt - startedAt) / 1_000).toFixed(2)} s`

const startText = ({ startedAt }: Pick<RunStep, "startedAt">): string => startedAt === undefined ? "-" : timeText(startedAt)

/** A table with one row for each step. */
export const stepTable = (steps: ReadonlyArray<RunStep>): string =>
  Output.table([
    ["PATH", "KIND", "STATE", "STARTED", "TOOK", ""],
    ...steps.map((step) => [step.path, step.kind, step.state, startText(step), tookText(step), noteOf(step)])
  ])

const attemptTable = (attempts: ReadonlyArray<StepAttempt>): string =>
  Output.table([
    ["ATTEMPT", "STATE", "STARTED", "TOOK", ""],
    ...attempts.map((one) => [
      String(one.attempt),
      one.state,
      startText(one),
      tookText(one),
      [...(one.job === undefined ? [] : [`job ${one.job}`]), ...(one.error === undefined ? [] : [firstLine(one.error)])].join(
        ", "
      )
    ])
  ])

/** A value that a step received or returned, and where it comes from, if it is not recorded with the step. */
export interface StepValue {
  readonly from: string | undefined
  readonly text: string
}

const valueText = ({ from, text }: StepValue): string => {
  const shown = text.length > MOST_VALUE ? `${text.slice(0, MOST_VALUE)}... (${text.length} characters; --json prints all)` : text
  return from === undefined ? shown : `${from}\n${shown}`
}

/** Everything about one step. `run`: how `stint logs` names the run. */
export const stepDetails = (
  step: RunStep,
  { input, output, run }: {
    readonly input: StepValue | undefined
    readonly output: StepValue | undefined
    readonly run: string
  }
): string => {
  const { attempts, endedAt, endpoint, error, event, job, kind, nextAttemptAt, path, startedAt, state, until } = step
  const isCode = job === undefined && (kind === "step" || kind === "undo")
  const log = job === undefined ? `stint logs ${run} --step ${path}` : `stint logs ${endpoint ?? ""} ${job}`
  return [
    Output.field("step", Output.inline(path)),
    Output.field("kind", kind),
    Output.field("state", state),
    ...(startedAt === undefined ? [] : [Output.field("started", timeText(startedAt))]),
    ...(endedAt === undefined ? [] : [Output.field("took", tookText(step))]),
    ...(until === undefined ? [] : [Output.field("until", timeText(until))]),
    ...(nextAttemptAt === undefined ? [] : [Output.field("next", timeText(nextAttemptAt))]),
    ...(event === undefined ? [] : [Output.field("event", Output.inline(`${event.name}, key ${JSON.stringify(event.key)}`))]),
    ...(job === undefined ? [] : [Output.field("job", Output.inline(`${job} of ${endpoint ?? ""}`))]),
    ...(input === undefined ? [] : [Output.field("input", valueText(input))]),
    ...(output === undefined ? [] : [Output.field("output", valueText(output))]),
    ...(error === undefined ? [] : [Output.field("error", error)]),
    ...(attempts === undefined ? [] : ["", attemptTable(attempts)]),
    ...(isCode || job !== undefined ? ["", Output.inline(`Its log: ${log}`)] : [])
  ].join("\n")
}

/** The outputs of the steps that a step's input comes from, as they are recorded: those of a node, or that of a path. */
export const outputsOf = (steps: ReadonlyArray<RunStep>, from: ReadonlyArray<string>): ReadonlyArray<RunStep> =>
  steps.filter(({ kind, path }) =>
    kind !== "undo" && (from.includes(path) || (path.includes("[") && from.includes(nodeOf(path))))
  )

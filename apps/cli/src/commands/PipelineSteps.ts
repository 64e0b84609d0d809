/**
 * The steps of a run: all, read page by page, or one of them with its input and output.
 */
import { isWithin } from "@stint/contract/NodeAddress"
import type { RunStep, RunSteps } from "@stint/contract/RunSteps"
import * as Effect from "effect/Effect"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { outputsOf, stepDetails, type StepValue } from "../output/StepText.ts"

/** The maximum number of steps in a page. */
const PAGE = 1_000

/** All steps of a run, with its other data. */
export const allSteps = Effect.fnUntraced(function*(endpoint: string, id: string) {
  const steps: Array<RunStep> = []
  let after = 0
  while (true) {
    const page: RunSteps = yield* call((api) => api.runs.steps({ params: { endpoint, id }, query: { after, limit: PAGE } }))
    steps.push(...page.steps)
    if (page.next === undefined) return { ...page, steps }
    after = page.next
  }
})

/** The maximum number of steps that are printed with everything that is known about them. */
const MOST_DETAILED = 20

/** The input and the output of a job. Undefined if this key may not read it. */
const jobOf = (endpoint: string, id: string) =>
  call((api) => api.jobs.status({ params: { endpoint, id }, query: { input: "true" } })).pipe(
    Effect.catchIf(({ status }) => status === 401 || status === 403 || status === 404, () => Effect.succeed(undefined))
  )

const textOf = (value: unknown): string | undefined => value === undefined ? undefined : JSON.stringify(value)

const valueOf = (text: string | undefined, from?: string): StepValue | undefined =>
  text === undefined ? undefined : { from, text }

/** What a step received. The input of a job is stored with the job, and that of other steps is the output of earlier ones or recorded. */
const inputOf = Effect.fnUntraced(function*(step: RunStep, steps: ReadonlyArray<RunStep>, run: RunAddress) {
  const { input } = step
  if (input === undefined) return undefined
  if ("value" in input) return valueOf(textOf(input.value))
  if ("text" in input) return valueOf(`${input.text}... (only the beginning is recorded)`)
  if (input.from.length === 0) return valueOf(textOf((yield* jobOf(run.endpoint, run.id))?.input), "the input of the run:")
  const sources = yield* Effect.forEach(
    outputsOf(steps, input.from).slice(0, MOST_DETAILED),
    (source) => Effect.map(outputOf(source), (output) => `${source.path}: ${output?.text ?? "none"}`)
  )
  return { from: `from ${input.from.join(", ")}:`, text: sources.join("\n") }
})

const outputOf = Effect.fnUntraced(function*({ endpoint, job, output }: RunStep) {
  if (output !== undefined || job === undefined || endpoint === undefined) return valueOf(textOf(output))
  return valueOf(textOf((yield* jobOf(endpoint, job))?.output))
})

interface RunAddress {
  readonly endpoint: string
  readonly id: string
}

/** Prints the steps at a path or of a node, each with its input, its output and its attempts. */
export const printStep = Effect.fnUntraced(function*({ endpoint, json, run, wanted }: {
  readonly endpoint: string
  readonly run: string
  readonly wanted: string
  readonly json: boolean
}) {
  const { steps } = yield* allSteps(endpoint, run)
  const found = steps.filter(({ path }) => isWithin(path, wanted))
  if (found.length === 0) {
    return yield* new CliFailure({
      message: `The run ${run} has recorded no step "${wanted}".`,
      hint: `List its steps: stint pipelines steps ${endpoint} ${run}`,
      code: "step-not-found"
    })
  }
  if (json) return yield* Output.print(true, { steps: found }, () => "")
  const texts = yield* Effect.forEach(
    found.slice(0, MOST_DETAILED),
    Effect.fnUntraced(function*(step) {
      const job = step.job === undefined || step.endpoint === undefined ? undefined : yield* jobOf(step.endpoint, step.job)
      return stepDetails(step, {
        input: valueOf(textOf(job?.input)) ?? (yield* inputOf(step, steps, { endpoint, id: run })),
        output: valueOf(textOf(job?.output)) ?? (yield* outputOf(step)),
        run: `${endpoint} ${run}`
      })
    })
  )
  const more = found.length - MOST_DETAILED
  yield* Output.text(
    [...texts, ...(more > 0 ? [`${more} more. Name one of them, such as ${found.at(-1)?.path ?? ""}.`] : [])].join("\n\n")
  )
})

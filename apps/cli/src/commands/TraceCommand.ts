/**
 * `stint trace` shows where a job's time went. It uses the platform's own data and needs no tracing backend.
 */
import type { WaitPart } from "@stint/contract/Explanation"
import type { AttemptOutcome, JobLogLine } from "@stint/contract/JobLogLine"
import type { ExplainedJob } from "@stint/contract/JobsApi"
import { LOG_PAGE_LIMIT } from "@stint/contract/LogsApi"
import type { RunStep } from "@stint/contract/RunSteps"
import type { WebhookDeliveryDetails } from "@stint/contract/WebhooksApi"
import { Command } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import process from "node:process"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import * as Waterfall from "../output/Waterfall.ts"
import { endpoint, jobId, json } from "./SharedFlags.ts"

/** The width of the drawing without a terminal. */
const WIDTH = 100

/** The number of webhook deliveries that are shown. */
const MAX_DELIVERIES = 20

/** The number of log pages that are searched for the ends of attempts: the default quota of a job's lines. */
const MAX_LOG_PAGES = 10

/** Labels for the parts of a wait. */
const PHASES: { readonly [phase in WaitPart["phase"]]: string } = {
  queue: "until a worker was requested",
  pull: "pull its image",
  create: "create the worker",
  start: "start the worker",
  setup: "the worker's setup",
  prepare: "prepare the worker",
  take: "until it was taken"
}

/** How an attempt ended. */
const OUTCOMES: { readonly [outcome in AttemptOutcome]: string } = {
  failed: "failed",
  timed_out: "timed out",
  lost: "lost its worker",
  returned: "returned"
}

/** A line of the job's log that reports the end of an attempt. */
type EndedAttempt = Pick<JobLogLine, "attempt" | "ended" | "release" | "time" | "workerId">

/** The number of a run's steps that are shown. */
const MAX_STEPS = 200

/** The part of a run's step and, if there are several, those of its attempts. `part` counts to the end of the run if the end is unknown. */
const partsOfStep = (
  { attempts = [], endedAt, path, startedAt, state }: RunStep,
  part: (name: string, start: number, end: number | undefined) => Waterfall.Part
): ReadonlyArray<Waterfall.Part> => {
  const outcome = (state: RunStep["state"]) => state === "completed" || state === "open" ? "" : `, ${state}`
  if (startedAt === undefined) return []
  return [
    part(`step ${path}${outcome(state)}`, startedAt, endedAt),
    ...attempts.flatMap((one) =>
      one.startedAt === undefined
        ? []
        : [part(`  attempt ${one.attempt}${outcome(one.state)}`, one.startedAt, one.endedAt)]
    )
  ]
}

/**
 * The parts of a job's time, in order. `ends`: lines of its log; those without the end of an attempt are ignored. `steps`: those of a run, if the job
 * is one. `now` counts as the end of parts that have not ended.
 */
export const partsOf = (
  job: ExplainedJob,
  ends: ReadonlyArray<EndedAttempt>,
  deliveries: ReadonlyArray<Pick<WebhookDeliveryDetails, "event" | "attempts">>,
  now: number,
  steps: ReadonlyArray<RunStep> = []
): ReadonlyArray<Waterfall.Part> => {
  const { explain } = job
  if (explain === undefined) return []
  const { attempts: { made, most }, createdAt, finishedAt, queuedAt, release, startedAt, wait } = explain
  const part = (name: string, start: number, end: number | undefined): Waterfall.Part => ({
    name,
    start,
    end: Math.max(start, end ?? now),
    isOpen: end === undefined
  })
  const parts: Array<Waterfall.Part> = []
  const one = most === null ? "activation" : "attempt"
  const ranOn = (worker = "a worker", release?: number) => `on ${worker}${release === undefined ? "" : `, release ${release}`}`
  const earlier = startedAt === undefined ? made : made - 1
  const known = ends.filter(({ attempt, ended }) => ended !== undefined && attempt <= earlier)
  if (earlier > 0 && known.length === earlier) {
    let waitedFrom = createdAt
    for (const { attempt, ended, release, time, workerId } of known) {
      const start = ended?.startedAt ?? time
      const outcome = ended === undefined ? "" : `, ${OUTCOMES[ended.outcome]}`
      parts.push(part("wait", waitedFrom, start), part(`${one} ${attempt} ${ranOn(workerId, release)}${outcome}`, start, time))
      waitedFrom = time
    }
  } else if (queuedAt > createdAt) {
    const words = earlier === 0 ? "until the start time" : `${earlier} earlier ${earlier === 1 ? one : `${one}s`}`
    parts.push(part(words, createdAt, queuedAt))
  }
  parts.push(part("wait", Math.min(queuedAt, startedAt ?? queuedAt), startedAt ?? finishedAt))
  if (startedAt !== undefined) {
    let from = queuedAt
    const phases = wait?.parts ?? []
    // If a running worker took the job, the wait has only one part.
    for (const { millis, phase } of phases.length > 1 ? phases : []) {
      parts.push(part(`  ${PHASES[phase]}`, from, from + millis))
      from += millis
    }
    parts.push(part(`${one} ${made} ${ranOn(job.workerId, release)}`, startedAt, finishedAt))
  }
  for (const step of steps) parts.push(...partsOfStep(step, (name, start, end) => part(name, start, end ?? finishedAt)))
  for (const { attempts, event } of deliveries) {
    for (const [index, { at, durationMs, error }] of attempts.entries()) {
      const outcome = error === null ? "" : ", failed"
      parts.push(part(`webhook ${event}${attempts.length === 1 ? "" : ` ${index + 1}`}${outcome}`, at, at + durationMs))
    }
  }
  return parts
}

/** The lines of the job's log that report the end of an attempt, as far as the newest lines do. */
const endsOf = (endpoint: string, job: string) =>
  Effect.gen(function*() {
    const ends: Array<JobLogLine> = []
    let after = 0
    for (let page = 0; page < MAX_LOG_PAGES; page++) {
      const { cursor, lines, more } = yield* call((api) =>
        api.logs.logs({ params: { endpoint, id: job }, query: { after, level: "INFO", limit: LOG_PAGE_LIMIT } })
      )
      ends.push(...lines.filter(({ ended }) => ended !== undefined))
      if (!more) break
      after = cursor
    }
    return ends
  })

/** The deliveries with their attempts, oldest first. None for a key that may not read them. */
const deliveriesOf = (endpoint: string, job: string) =>
  Effect.gen(function*() {
    const { deliveries } = yield* call((api) =>
      api.webhooks.listDeliveries({ params: { endpoint }, query: { job, limit: MAX_DELIVERIES } })
    )
    return yield* Effect.forEach(
      deliveries.toReversed(),
      ({ id }) => call((api) => api.webhooks.getDelivery({ params: { endpoint, delivery: id } })),
      { concurrency: 4 }
    )
  }).pipe(Effect.catchIf(({ status }) => status === 401 || status === 403, () => Effect.succeed([])))

/** The steps of a job that is a run of a pipeline. Only runs have no maximum number of attempts. */
const stepsOf = (endpoint: string, { explain, id }: ExplainedJob) =>
  explain?.attempts.most !== null
    ? Effect.succeed([])
    : call((api) => api.runs.steps({ params: { endpoint, id }, query: { limit: MAX_STEPS } })).pipe(
      Effect.map(({ steps }) => steps),
      Effect.catchIf(({ status }) => status === 409, () => Effect.succeed([]))
    )

const format = ({ job, parts }: { readonly job: ExplainedJob; readonly parts: ReadonlyArray<Waterfall.Part> }): string => {
  const lines = [Output.field("job", job.id), Output.field("status", job.status)]
  if (job.retries !== undefined) lines.push(Output.field("retries", String(job.retries)))
  if (job.error !== undefined) lines.push(Output.field("error", job.error.split("\n", 1)[0]?.slice(0, 200) ?? ""))
  if (job.explain !== undefined) lines.push(Output.field("why", job.explain.words))
  if (job.explain?.trace !== undefined) lines.push(Output.field("trace", job.explain.trace.url))
  return [...lines, "", Waterfall.draw(parts, process.stdout.columns || WIDTH)].join("\n")
}

/** `stint trace`. */
export const command = Command.make(
  "trace",
  { endpoint, jobId, json },
  Effect.fnUntraced(function*({ endpoint, jobId, json }) {
    const [job, deliveries] = yield* Effect.all([
      call((api) => api.jobs.status({ params: { endpoint, id: jobId }, query: { explain: "true" } })),
      deliveriesOf(endpoint, jobId)
    ], { concurrency: 2 })
    const steps = yield* stepsOf(endpoint, job)
    const ends = (job.explain?.attempts.made ?? 0) > 1 ? yield* endsOf(endpoint, jobId) : []
    const parts = partsOf(job, ends, deliveries, yield* Clock.currentTimeMillis, steps)
    yield* Output.print(json, { job, parts }, format)
  })
).pipe(
  Command.withDescription("Show where a job's time went: waits, the worker's start, attempts, the steps of a run, and webhooks"),
  Command.withExamples([{
    command: "stint trace hello 0f8fad5b-d9cb-469f-a165-70867728950e",
    description: "One line for each part"
  }])
)

/**
 * Measures the cold starts of an endpoint: one request at a time, each to an endpoint without workers.
 *
 * ```
 *   wait until no worker runs --> a bare program --> a request, until its result --> its parts, from its explanation --> again
 * ```
 *
 * The bare program and the requests alternate, so that both run under the same machine load. A request that found a running worker, for example one
 * that another caller had started, does not count and is repeated.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { WaitBreakdown, WaitPart } from "@stint/contract/Explanation"
import { isTerminal, type Job } from "@stint/contract/Job"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { spawn } from "node:child_process"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { type Figure, figureOf } from "./Figures.ts"

/** How often the platform is asked whether the endpoint has workers. */
const POLL = "100 millis"

/** How long the server holds one call while it waits for the result. Milliseconds. */
const WAIT_MILLIS = "60000"

/** One cold start. Milliseconds. */
export interface ColdStart {
  /** From the request to its result, as the caller sees it. */
  readonly request: number
  /** The job's wait, and its parts. */
  readonly wait: number
  readonly parts: ReadonlyArray<WaitPart>
  /** The time for which a worker held the job. */
  readonly execution: number
  /** Whether the worker started in a standby process. */
  readonly standby: boolean
}

/** What is measured. */
export interface Options {
  readonly endpoint: string
  readonly input: Schema.Json
  readonly runs: number
  /** A program and its arguments, to compare with; empty for none. */
  readonly against: ReadonlyArray<string>
}

/** The result. */
export interface Measured {
  readonly endpoint: string
  readonly runs: ReadonlyArray<ColdStart>
  /** The durations of the bare program. Milliseconds. */
  readonly bare: ReadonlyArray<number>
}

/** Why the cold starts of an endpoint cannot be measured; undefined if they can. */
export const obstacleOf = ({ id, source, workers }: Pick<Endpoint, "id" | "source" | "workers">): CliFailure | undefined => {
  const failure = (message: string, hint: string) => new CliFailure({ message, hint, code: "no-cold-start" })
  if (source.type === "external") {
    return failure(
      `The platform starts no workers of endpoint ${id}.`,
      "Measure an endpoint with a handler, a command or an image."
    )
  }
  if (workers.max === 0) {
    return failure(`Endpoint ${id} is paused.`, `Allow it a worker: stint endpoints update ${id} --workers-max 1`)
  }
  if (workers.min > 0) {
    return failure(
      `Endpoint ${id} always has ${workers.min} or more workers, so no request starts one.`,
      `Let it scale to zero for the measurement: stint endpoints update ${id} --workers-min 0`
    )
  }
  return undefined
}

/** The monotonic time in milliseconds. */
const millis = Effect.map(Clock.currentTimeNanos, (nanos) => Number(nanos) / 1e6)

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const began = yield* millis
    const value = yield* effect
    return { value, took: (yield* millis) - began }
  })

/**
 * How long to wait for the next standby process when workers start in one. The platform starts it one second after the previous one was taken.
 */
const STANDBY_PAUSE = "2 seconds"

/** Waits until the endpoint has no worker and no job. */
const untilCold = Effect.fnUntraced(function*(endpoint: string) {
  const progress = Output.makeProgress()
  const since = yield* Clock.currentTimeMillis
  while (true) {
    const { jobs, workers } = yield* call((api) => api.jobs.health({ params: { endpoint } }))
    const open = jobs.inQueue + jobs.inProgress
    if (open === 0 && workers.idle + workers.initializing + workers.running === 0) return yield* progress.clear
    const what = open > 0 ? `waiting for ${open} other jobs` : "waiting until its worker has stopped"
    yield* progress.show(`${endpoint}: ${what}`, (yield* Clock.currentTimeMillis) - since)
    yield* Effect.sleep(POLL)
  }
})

/** Runs a program until it exits. */
const runProgram = ([program = "", ...args]: ReadonlyArray<string>): Effect.Effect<void, CliFailure> =>
  Effect.callback((resume) => {
    const failed = (problem: string) =>
      resume(Effect.fail(
        new CliFailure({
          message: `The program of --against ${problem}: ${[program, ...args].join(" ")}`,
          hint: "Run it by hand first."
        })
      ))
    const child = spawn(program, args, { stdio: "ignore" })
    child.once("error", ({ message }) => failed(`does not start (${message})`))
    child.once("exit", (code, signal) => code === 0 ? resume(Effect.void) : failed(`ended with ${signal ?? `code ${code}`}`))
    return Effect.sync(() => void child.kill())
  })

/** Submits a job and waits for its result. */
const request = Effect.fnUntraced(function*({ endpoint, input }: Options) {
  const { id } = yield* call((api) => api.jobs.run({ params: { endpoint }, payload: { input } }))
  let job: Job
  do {
    job = yield* call((api) => api.jobs.statusSync({ params: { endpoint, id }, query: { wait: WAIT_MILLIS } }))
  } while (!isTerminal(job.status))
  if (job.status === "COMPLETED") return job
  return yield* new CliFailure({
    message: `Job ${Output.inline(id)} ended as ${job.status}.`,
    hint: job.error ?? "A cold start is measured with jobs that succeed: choose another --input.",
    code: "job-not-completed"
  })
})

/** Whether the job waited for its worker to start. */
const isCold = ({ parts }: WaitBreakdown): boolean => parts.some(({ phase }) => phase === "start" || phase === "create")

/** One request. Undefined when it found a running worker. */
const measureOnce = Effect.fnUntraced(function*(options: Options) {
  const { endpoint } = options
  const { took, value: { executionTime = 0, id } } = yield* timed(request(options))
  const { explain } = yield* call((api) => api.jobs.status({ params: { endpoint, id }, query: { explain: "true" } }))
  const wait = explain?.wait
  if (wait === undefined || wait.unknown !== undefined) {
    return yield* new CliFailure({
      message: `The platform cannot report the parts of a cold start: ${wait?.words ?? "the job has no explanation"}.`,
      hint: "With several nodes, call the node that starts the workers of the endpoint (STINT_URL).",
      code: "no-cold-start"
    })
  }
  if (!isCold(wait)) return undefined
  const found: ColdStart = {
    request: took,
    wait: wait.millis,
    parts: wait.parts,
    execution: executionTime,
    standby: wait.standby === true
  }
  return found
})

/** Measures the cold starts. */
export const measure = Effect.fn("ColdStarts.measure")(function*(options: Options) {
  const { against, endpoint, runs } = options
  const obstacle = obstacleOf(yield* call((api) => api.control.getEndpoint({ params: { endpoint } })))
  if (obstacle !== undefined) return yield* obstacle
  const found: Array<ColdStart> = []
  const bare: Array<number> = []
  for (let warm = 0; found.length < runs;) {
    yield* untilCold(endpoint)
    if (found.some(({ standby }) => standby)) yield* Effect.sleep(STANDBY_PAUSE)
    if (against.length > 0) bare.push((yield* timed(runProgram(against))).took)
    const one = yield* measureOnce(options)
    if (one !== undefined) {
      found.push(one)
      yield* Output.message(`${found.length} of ${runs}: ${Math.round(one.request)} ms`)
      continue
    }
    // Discards the run of the bare program that preceded this request, too.
    bare.pop()
    if (++warm > runs) {
      return yield* new CliFailure({
        message: `${warm} requests to ${endpoint} found a running worker.`,
        hint: "Measure an endpoint that has no other callers.",
        code: "no-cold-start"
      })
    }
  }
  return { endpoint, runs: found, bare }
})

const PHASES: ReadonlyArray<WaitPart["phase"]> = ["queue", "pull", "create", "start", "setup", "prepare", "take"]

/** The figures for each part, for the whole request, and for the bare program. */
export interface Summary {
  readonly parts: Readonly<Partial<Record<WaitPart["phase"], Figure>>>
  readonly wait: Figure | undefined
  readonly execution: Figure | undefined
  readonly request: Figure | undefined
  readonly bare: Figure | undefined
  /** How many workers started in a standby process. */
  readonly standbys: number
}

/** A part that a run lacks counts as 0. */
export const summaryOf = ({ bare, runs }: Measured): Summary => {
  const millisOf = ({ parts }: ColdStart, phase: WaitPart["phase"]) => parts.find((part) => part.phase === phase)?.millis
  return {
    parts: Object.fromEntries(
      PHASES.filter((phase) => runs.some((one) => millisOf(one, phase) !== undefined))
        .map((phase) => [phase, figureOf(runs.map((one) => millisOf(one, phase) ?? 0))])
    ),
    wait: figureOf(runs.map(({ wait }) => wait)),
    execution: figureOf(runs.map(({ execution }) => execution)),
    request: figureOf(runs.map(({ request }) => request)),
    bare: figureOf(bare),
    standbys: runs.filter(({ standby }) => standby).length
  }
}

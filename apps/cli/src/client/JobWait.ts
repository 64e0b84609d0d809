/**
 * Waits for a job. Shows its progress, and why it waits. When Ctrl-C ends the wait, reports the state of the job.
 */
import type { WaitReason } from "@stint/contract/Explanation"
import { isTerminal, type Job, type JobReceipt } from "@stint/contract/Job"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { call } from "./PlatformClient.ts"

/** How long the server holds one call before the progress is shown again. Milliseconds. */
const POLL_MILLIS = "2000"

/** After Ctrl-C, the platform may take this long to respond. */
const INTERRUPT_TIMEOUT = "3 seconds"

interface JobName {
  readonly endpoint: string
  readonly id: string
}

/** The state for the progress line: the status, and the latest progress of a running job. */
const stateOf = ({ output, status }: Job): string =>
  status === "IN_PROGRESS" && output !== undefined ? `${status} ${JSON.stringify(output).slice(0, 80)}` : status

/** The reasons for which a healthy endpoint lets a job wait for a moment, and those of jobs that do not wait. They are not shown. */
const ORDINARY: ReadonlySet<WaitReason> = new Set(["next", "starting", "running", "ended"])

/** Shows why a waiting job waits, once for each reason. */
const makeWaitReasons = ({ endpoint, id }: JobName, progress: Output.Progress) => {
  let last: WaitReason | undefined
  return Effect.fnUntraced(function*({ status }: Job) {
    if (status !== "IN_QUEUE") return
    const request = call((api) => api.jobs.status({ params: { endpoint, id }, query: { explain: "true" } }))
    // The wait goes on without the reason.
    const explain = yield* request.pipe(Effect.map((job) => job.explain), Effect.orElseSucceed(() => undefined))
    if (explain === undefined || explain.reason === last) return
    last = explain.reason
    if (ORDINARY.has(explain.reason)) return
    yield* progress.clear
    yield* Output.message(Output.field("why", explain.words))
  })
}

/** Waits until the job has ended, without output. */
export const untilEnded = Effect.fnUntraced(function*({ endpoint, id }: JobName) {
  const params = { endpoint, id }
  let job: Job = yield* call((api) => api.jobs.status({ params, query: {} }))
  while (!isTerminal(job.status)) job = yield* call((api) => api.jobs.statusSync({ params, query: { wait: POLL_MILLIS } }))
  return job
})

/** Waits until the job has ended. Shows its status, and why it waits. */
export const awaitEnd = Effect.fnUntraced(function*({ endpoint, id }: JobName) {
  const progress = Output.makeProgress()
  const showReason = makeWaitReasons({ endpoint, id }, progress)
  const since = yield* Clock.currentTimeMillis
  const params = { endpoint, id }
  let job: Job = yield* call((api) => api.jobs.status({ params, query: {} }))
  while (!isTerminal(job.status)) {
    yield* progress.show(stateOf(job), (yield* Clock.currentTimeMillis) - since)
    job = yield* call((api) => api.jobs.statusSync({ params, query: { wait: POLL_MILLIS } }))
    yield* showReason(job)
  }
  yield* progress.clear
  return job
})

/** Passes each chunk to `onChunk` as it arrives. Returns the ended job and the number of its chunks. */
export const streamToEnd = Effect.fnUntraced(
  function*({ endpoint, id }: JobName, onChunk: (output: unknown) => Effect.Effect<void>) {
    const progress = Output.makeProgress()
    const showReason = makeWaitReasons({ endpoint, id }, progress)
    const since = yield* Clock.currentTimeMillis
    let count = 0
    while (true) {
      const { stream, ...job } = yield* call((api) => api.jobs.stream({ params: { endpoint, id }, query: { wait: POLL_MILLIS } }))
      if (stream.length > 0) yield* progress.clear
      for (const { output } of stream) yield* onChunk(output)
      count += stream.length
      if (isTerminal(job.status)) {
        yield* progress.clear
        return { job, count }
      }
      yield* showReason(job)
      yield* progress.show(stateOf(job), (yield* Clock.currentTimeMillis) - since)
    }
  }
)

const cancel = ({ endpoint, id }: JobName) =>
  Effect.map(
    call((api) => api.jobs.cancel({ params: { endpoint, id } })),
    ({ status }) =>
      status === "CANCELLED"
        ? `Job ${Output.inline(id)} is cancelled.`
        : `Job ${Output.inline(id)} had already ended as ${status}.`
  )

const describe = ({ endpoint, id }: JobName) =>
  Effect.map(
    call((api) => api.jobs.status({ params: { endpoint, id }, query: {} })),
    ({ status }) =>
      isTerminal(status)
        ? `Job ${Output.inline(id)} has ended as ${status}: stint status ${endpoint} ${Output.inline(id)}`
        : `Stopped waiting. Job ${
          Output.inline(id)
        } is ${status} and continues.\n  Wait for it again:  stint status ${endpoint} ${Output.inline(id)} --wait\n` +
          `  Cancel it:          stint cancel ${endpoint} ${Output.inline(id)}`
  )

interface OnInterrupt {
  /** Cancel the job. */
  readonly cancel: boolean
}

/** Reports the state of the job, after cancelling it if the options say so. */
const explainInterrupt = (job: JobName, options: OnInterrupt) =>
  (options.cancel ? cancel(job) : describe(job)).pipe(
    Effect.timeoutOption(INTERRUPT_TIMEOUT),
    Effect.orElseSucceed(() => Option.none<string>()),
    Effect.map(Option.getOrElse(() =>
      options.cancel
        ? `The platform did not respond, so job ${Output.inline(job.id)} may continue. Cancel it: stint cancel ${job.endpoint} ${
          Output.inline(job.id)
        }`
        : `Stopped waiting. The platform did not respond; job ${
          Output.inline(job.id)
        } continues. See it: stint status ${job.endpoint} ${Output.inline(job.id)}`
    )),
    Effect.flatMap((text) => Output.message(`\n${text}`))
  )

/** When the wait is interrupted, reports the state of the job. */
export const onInterrupt = (job: JobName, options: OnInterrupt) => <A, E, R>(wait: Effect.Effect<A, E, R>) =>
  Effect.onInterrupt(wait, () => explainInterrupt(job, options))

/**
 * Submits a job. Ctrl-C does not end the request, because the platform may already have created the job, and only the response contains its id. This
 * waits for the response, and then reports the state of the job.
 */
export const submit = Effect.fnUntraced(function*<E, R>(
  endpoint: string,
  request: Effect.Effect<JobReceipt, E, R>,
  options: OnInterrupt
) {
  const submitting = yield* Effect.forkDetach(request)
  return yield* Effect.onInterrupt(Fiber.join(submitting), () =>
    Fiber.join(submitting).pipe(
      Effect.timeoutOption(INTERRUPT_TIMEOUT),
      Effect.orElseSucceed(() => Option.none<JobReceipt>()),
      Effect.flatMap(Option.match({
        onSome: ({ id }) => explainInterrupt({ endpoint, id }, options),
        onNone: () =>
          Output.message(
            `\nStopped before the platform responded. It may have created the job; see: stint jobs list ${endpoint}`
          )
      })),
      Effect.ensuring(Fiber.interrupt(submitting))
    ))
})

/** Fails unless the job is COMPLETED, so that the exit code is 1. Does not repeat the job's error when it was printed with the job. */
export const requireCompleted = (job: Job, options: { readonly isPrinted: boolean }): Effect.Effect<void, CliFailure> =>
  job.status === "COMPLETED"
    ? Effect.void
    : Effect.fail(
      new CliFailure({
        message: `The job ended as ${job.status}.`,
        hint: options.isPrinted ? "" : job.error ?? "",
        code: "job-not-completed"
      })
    )

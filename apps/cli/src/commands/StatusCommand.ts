/**
 * `stint status` shows one job, and `stint cancel` cancels one.
 */
import type { Explanation } from "@stint/contract/Explanation"
import type { ExplainedJob } from "@stint/contract/JobsApi"
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as JobWait from "../client/JobWait.ts"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import { endpoint, jobId, json } from "./SharedFlags.ts"

const explain = Flag.Boolean("explain").pipe(
  Flag.withDescription("Explain why the job is in its state"),
  Flag.withDefault(false)
)

const input = Flag.Boolean("input").pipe(
  Flag.withDescription("Show the job's input, too"),
  Flag.withDefault(false)
)

const wait = Flag.Boolean("wait").pipe(
  Flag.withDescription("Wait until the job has ended; the exit code is 1 unless it is COMPLETED"),
  Flag.withDefault(false)
)

/** Worker counts by state: `3 idle, 1 starting`. */
const formatWorkers = ({ draining, idle, initializing, max, running, throttled, unhealthy }: Explanation["workers"]): string => {
  const states = [
    [idle, "idle"],
    [running, "running"],
    [initializing, "starting"],
    [draining, "draining"],
    [throttled, "throttled"],
    [unhealthy, "failing"]
  ] as const
  const some = states.filter(([amount]) => amount > 0).map(([amount, state]) => `${amount} ${state}`)
  return `${some.length === 0 ? "none" : some.join(", ")}${max === null ? "" : ` of at most ${max}`}`
}

const time = (millis: number): string => new Date(millis).toISOString()

/** Formats a job as text, with the parts of its wait. `complete`: also with an explanation of its state. */
const formatJob = (complete: boolean) => (job: ExplainedJob): string => {
  const { explain, input } = job
  const shown = Output.job(job, explain?.wait?.words)
  const text = input === undefined ? shown : `${shown}\n${Output.field("input", JSON.stringify(input, null, 2))}`
  if (explain === undefined || !complete) return text
  const { attempts, cause, expiresAt, lease, nextRetryAt, position, release, startAt, workers } = explain
  const lines = [text, Output.field("why", explain.words)]
  if (position !== undefined) {
    lines.push(Output.field("place", `${position.more ? "over " : ""}${position.place} of ${position.of}`))
  }
  lines.push(
    Output.field("workers", formatWorkers(workers)),
    Output.field("attempts", attempts.most === null ? `${attempts.made} activations` : `${attempts.made} of ${attempts.most}`)
  )
  if (release !== undefined) lines.push(Output.field("release", String(release)))
  if (lease !== undefined) lines.push(Output.field("lease", `${lease.worker}, until ${time(lease.expiresAt)}`))
  if (startAt !== undefined) lines.push(Output.field("starts", time(startAt)))
  if (nextRetryAt !== undefined) lines.push(Output.field("next", time(nextRetryAt)))
  if (expiresAt !== undefined) lines.push(Output.field("expires", time(expiresAt)))
  // Its first line is part of the explanation.
  if (cause?.includes("\n") === true) lines.push(Output.field("cause", cause))
  return lines.join("\n")
}

/** `stint status`. */
export const status = Command.make(
  "status",
  { endpoint, jobId, explain, input, wait, json },
  Effect.fnUntraced(function*({ endpoint, explain, input, jobId, json, wait }) {
    if (wait) {
      const job = { endpoint, id: jobId }
      const ended = yield* JobWait.onInterrupt(job, { cancel: false })(JobWait.awaitEnd(job))
      yield* Output.print(json, ended, Output.job)
      return yield* JobWait.requireCompleted(ended, { isPrinted: true })
    }
    // The text shows the parts of the wait, which the explanation contains.
    const query = { ...(explain || !json ? { explain: "true" } : {}), ...(input ? { input: "true" } : {}) }
    const job = yield* call((api) => api.jobs.status({ params: { endpoint, id: jobId }, query }))
    yield* Output.print(json, job, formatJob(explain))
  })
).pipe(
  Command.withDescription("Show a job; --explain explains its state, --input shows its input, --wait waits for its end")
)

/** Cancels a job. Does not change a job that has already ended, and prints that it had ended. */
export const cancelJob = Effect.fnUntraced(function*(
  { endpoint, jobId, json }: { readonly endpoint: string; readonly jobId: string; readonly json: boolean }
) {
  const receipt = yield* call((api) => api.jobs.cancel({ params: { endpoint, id: jobId } }))
  yield* Output.print(
    json,
    receipt,
    ({ id, status }) =>
      status === "CANCELLED"
        ? `${Output.inline(id)}  CANCELLED`
        : `${Output.inline(id)}  ${status}\nThe job had already ended; nothing was cancelled.`
  )
})

/** `stint cancel`. */
export const cancel = Command.make("cancel", { endpoint, jobId, json }, cancelJob).pipe(
  Command.withDescription("Cancel a waiting or running job")
)

/**
 * `stint status` and `stint cancel`: one job.
 */
import type { Explanation } from "@stint/contract/Explanation"
import type { ExplainedJob } from "@stint/contract/JobsApi"
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import { endpoint, jobId, json } from "./SharedFlags.ts"

const why = Flag.Boolean("explain").pipe(
  Flag.withDescription("Say what the job waits for"),
  Flag.withDefault(false)
)

/** `3 idle, 1 starting`: the states that there are workers in. */
const workersInWords = ({ draining, idle, initializing, max, running, throttled, unhealthy }: Explanation["workers"]): string => {
  const states = [
    [idle, "idle"],
    [running, "running"],
    [initializing, "starting"],
    [draining, "leaving"],
    [throttled, "throttled"],
    [unhealthy, "failing"]
  ] as const
  const some = states.filter(([amount]) => amount > 0).map(([amount, state]) => `${amount} ${state}`)
  return `${some.length === 0 ? "none" : some.join(", ")}${max === null ? "" : ` of at most ${max}`}`
}

const time = (millis: number): string => new Date(millis).toISOString()

/** A job for people, with why it is where it is. */
const explained = (job: ExplainedJob): string => {
  const { explain } = job
  if (explain === undefined) return Output.job(job)
  const { attempts, expiresAt, lease, nextRetryAt, position, workers } = explain
  const lines = [Output.job(job), `why      ${explain.words}`]
  if (position !== undefined) lines.push(`place    ${position.more ? "over " : ""}${position.place} of ${position.of}`)
  lines.push(`workers  ${workersInWords(workers)}`, `attempts ${attempts.made} of ${attempts.most}`)
  if (lease !== undefined) lines.push(`lease    ${lease.worker}, until ${time(lease.expiresAt)}`)
  if (nextRetryAt !== undefined) lines.push(`next     ${time(nextRetryAt)}`)
  if (expiresAt !== undefined) lines.push(`expires  ${time(expiresAt)}`)
  return lines.join("\n")
}

/** `stint status`. */
export const status = Command.make(
  "status",
  { endpoint, jobId, why, json },
  Effect.fnUntraced(function*({ endpoint, jobId, json, why }) {
    const query = why ? { explain: "true" } : {}
    const job = yield* call((api) => api.jobs.status({ params: { endpoint, id: jobId }, query }))
    yield* Output.print(json, job, explained)
  })
).pipe(Command.withDescription("Show a job, and with --explain what it waits for"))

/** `stint cancel`. A job that had ended before is left as it is, and the command says so. */
export const cancel = Command.make(
  "cancel",
  { endpoint, jobId, json },
  Effect.fnUntraced(function*({ endpoint, jobId, json }) {
    const receipt = yield* call((api) => api.jobs.cancel({ params: { endpoint, id: jobId } }))
    yield* Output.print(
      json,
      receipt,
      ({ id, status }) =>
        status === "CANCELLED" ? `${id}  CANCELLED` : `${id}  ${status}\nThe job had ended before; nothing was cancelled.`
    )
  })
).pipe(Command.withDescription("Cancel a waiting or running job"))

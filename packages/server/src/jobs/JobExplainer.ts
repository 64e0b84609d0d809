/**
 * Why a job is where it is, from what the queue and the registry of workers know. Pure.
 *
 * ```
 *   ended? running? backoff?          the job's own doing
 *        |  none
 *   an idle worker?                   next
 *   a worker on its way?              starting
 *   as many as may be?                behind, paused, external
 *   may one be started?               throttled, failing, low-priority
 *        |  yes
 *   others before it run?             behind
 *   otherwise                         next
 * ```
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { Explanation, WaitReason } from "@stint/contract/Explanation"
import { isTerminal } from "@stint/contract/Job"
import type { WorkerState, WorkerStatus } from "@stint/queue/WorkerRegistry"
import type { JobReport } from "@stint/store/JobRecord"
import type { Ahead, Depth } from "@stint/store/JobStore"
import { excerpt } from "../http/ProblemJson.ts"
import { errorForCaller } from "./JobView.ts"

/** What is known at one moment. */
export interface ExplainInput {
  readonly job: JobReport
  /** How many ready jobs come before it; null where it is not ready itself. */
  readonly ahead: Ahead | null
  readonly depth: Pick<Depth, "waiting">
  readonly endpoint: Pick<Endpoint, "id" | "source" | "workers" | "errorTraceback">
  readonly workers: ReadonlyArray<Pick<WorkerStatus, "state" | "reason" | "retryAt" | "firstSeenAt">>
  readonly now: number
}

/** `350 ms`, `4.2 s`, `12 min`, `3.5 h`: as exact as a person needs it. */
const span = (millis: number): string => {
  const left = Math.max(0, Math.round(millis))
  if (left < 1_000) return `${left} ms`
  if (left < 120_000) return `${Math.round(left / 100) / 10} s`
  if (left < 7_200_000) return `${Math.round(left / 60_000)} min`
  return `${Math.round(left / 360_000) / 10} h`
}

const count = (amount: number, one: string, many = `${one}s`): string => `${amount} ${amount === 1 ? one : many}`

/** The first line, short enough for a sentence, without a full stop. */
const firstLine = (text: string): string => excerpt(text.split("\n", 1)[0] ?? "").replace(/\.$/, "")

type WaitCause = Pick<Explanation, "reason" | "words" | "nextRetryAt" | "cause">

const waitCause = (reason: WaitReason, words: string, rest: Omit<WaitCause, "reason" | "words"> = {}): WaitCause => ({
  reason,
  words,
  ...rest
})

/** Where it stands in line, as the beginning of a sentence. */
const inLine = (ahead: Ahead | null): string => {
  if (ahead === null) return "It waits"
  if (ahead.jobs === 0) return "It is the first in line"
  return `${ahead.more ? "More than " : ""}${count(ahead.jobs, "job")} ${
    ahead.jobs === 1 && !ahead.more ? "comes" : "come"
  } before it`
}

/** Of a job that waits for a worker. */
const waiting = ({ ahead, endpoint, job, now, workers }: ExplainInput): WaitCause => {
  const of = (...states: ReadonlyArray<WorkerState>) => workers.filter(({ state }) => states.includes(state))
  const { max } = endpoint.workers
  const external = endpoint.source.type === "external"
  const line = inLine(ahead)
  const idle = of("idle").length
  const busy = of("running").length
  const starting = of("initializing")
  const live = idle + busy + starting.length + of("draining").length

  if (idle > 0) {
    return waitCause(
      "next",
      `${line}; ${count(idle, "worker is idle and takes", "workers are idle and take")} the next job in a moment.`
    )
  }
  if (external && busy + starting.length === 0) {
    return waitCause(
      "external",
      `${line}, and no worker is connected. The platform starts none for this endpoint: start one with the variables of ` +
        `\`stint worker-env ${endpoint.id}\`.`
    )
  }
  if (!external && max === 0) {
    return waitCause(
      "paused",
      `${line}, and the endpoint is paused: its workers.max is 0. Set it to 1 or more and the job is run.`
    )
  }
  if (starting.length > 0) {
    const since = Math.min(...starting.map(({ firstSeenAt }) => firstSeenAt))
    return waitCause(
      "starting",
      `${line}; ${count(starting.length, "worker is", "workers are")} starting, the first for ${span(now - since)}.`
    )
  }
  if (external) {
    return waitCause("behind", `${line}; ${count(busy, "worker is", "workers are all")} busy. It is taken when one is free.`)
  }
  if (live >= max) {
    return waitCause(
      "behind",
      `${line}, and all ${count(max, "worker")} that the endpoint may have (workers.max) ${max === 1 ? "is" : "are"} busy. ` +
        "It is taken when one is free; a higher workers.max adds some."
    )
  }
  const [failed] = of("throttled", "unhealthy")
  if (failed !== undefined && failed.reason !== null) {
    const { reason, retryAt, state } = failed
    const later = retryAt !== null && retryAt > now
    const next = later ? `The next try is in ${span(retryAt - now)}.` : "The next try is under way."
    return waitCause(
      state === "throttled" ? "throttled" : "failing",
      `${line}, and ${state === "throttled" ? "there is no room for a worker" : "no worker starts"}: ${
        firstLine(reason)
      }. ${next}`,
      { cause: reason, ...(later ? { nextRetryAt: retryAt } : {}) }
    )
  }
  if (job.lowPriority && busy === 0) {
    return waitCause(
      "low-priority",
      `${line}. It was submitted with lowPriority and starts no worker: it waits for one that another job or workers.min starts.`
    )
  }
  if (busy > 0) {
    return waitCause(
      "behind",
      `${line}; ${count(busy, "worker is", "workers are")} busy of at most ${max}, and the scaler adds one when it is time.`
    )
  }
  return waitCause("next", `${line}; a worker is being started for it.`)
}

const waitCauseOf = (facts: ExplainInput): WaitCause => {
  const { job, now } = facts
  const tried = `attempt ${job.attempt} of ${job.maxAttempts}`
  if (isTerminal(job.status)) {
    return waitCause("ended", `It has ended: ${job.status}${job.attempt === 0 ? " before any attempt" : ` in ${tried}`}.`)
  }
  if (job.status === "IN_PROGRESS") {
    const silence = job.leaseExpiresAt === null
      ? ""
      : ` It has to be heard of within ${span(job.leaseExpiresAt - now)}, or the job is lost to it.`
    return waitCause(
      "running",
      `Worker ${excerpt(job.worker ?? "")} runs it (${tried}, for ${span(now - (job.startedAt ?? now))}).${silence}`
    )
  }
  const cause = job.lastError === null ? undefined : errorForCaller(job.lastError, facts.endpoint)
  if (job.notBefore !== null && job.notBefore > now) {
    const because = cause === undefined ? "" : `: ${firstLine(cause)}`
    return waitCause(
      "backoff",
      `Attempt ${job.attempt} of ${job.maxAttempts} came to nothing${because}. The next begins in ${
        span(job.notBefore - now)
      } at the earliest.`,
      { nextRetryAt: job.notBefore, ...(cause === undefined ? {} : { cause }) }
    )
  }
  return { ...(cause === undefined ? {} : { cause }), ...waiting(facts) }
}

/** Says why. */
export const explain = (facts: ExplainInput): Explanation => {
  const { ahead, depth, endpoint, job, workers } = facts
  const having = (state: WorkerState) => workers.filter((worker) => worker.state === state).length
  const place = ahead === null ? undefined : ahead.jobs + 1
  const running = job.status === "IN_PROGRESS" && job.worker !== null && job.leaseExpiresAt !== null
  return {
    ...waitCauseOf(facts),
    // The two were counted one after the other.
    ...(place === undefined ? {} : { position: { place, of: Math.max(place, depth.waiting), more: ahead?.more ?? false } }),
    workers: {
      max: endpoint.source.type === "external" ? null : endpoint.workers.max,
      idle: having("idle"),
      initializing: having("initializing"),
      running: having("running"),
      draining: having("draining"),
      throttled: having("throttled"),
      unhealthy: having("unhealthy")
    },
    ...(running && job.worker !== null && job.leaseExpiresAt !== null
      ? { lease: { worker: job.worker, expiresAt: job.leaseExpiresAt, attempt: job.attempt } }
      : {}),
    attempts: { made: job.attempt, most: job.maxAttempts },
    ...(isTerminal(job.status) ? {} : { expiresAt: job.expiresAt })
  }
}

/**
 * Explains why a job is in its current state, based on the state of the queue and the known workers. Pure.
 *
 * ```
 *   ended? running? scheduled? backoff?   decided by the job alone
 *   parked run of a pipeline?             held, parked
 *   held by its concurrency key?          concurrency
 *        |  none
 *   an idle worker?                   next, or failing when it does not take the job
 *   a worker starting?                starting
 *   at the maximum?                   behind, paused, external
 *   is its model there?               model, failing
 *   can one start?                    throttled, failing, low-priority
 *        |  yes
 *   other jobs running?               behind
 *   otherwise                         next
 * ```
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { Explanation, RollState, WaitReason } from "@stint/contract/Explanation"
import { pullText } from "@stint/contract/ImagePull"
import { isTerminal } from "@stint/contract/Job"
import type { WorkerBatch } from "@stint/contract/WorkerProtocol"
import type { ModelState } from "@stint/models/Models"
import { progressText } from "@stint/models/ProgressText"
import { summaryOfExit } from "@stint/pool/WorkerExit"
import type { WorkerState, WorkerStatus } from "@stint/queue/WorkerRegistry"
import type { KeyUsage } from "@stint/store/ConcurrencyRule"
import { isParked, isScheduled } from "@stint/store/JobMachine"
import type { JobReport } from "@stint/store/JobRecord"
import type { Ahead, Depth } from "@stint/store/JobStore"
import { excerpt } from "../http/ProblemJson.ts"
import { type ParkedRun, parkedWords } from "../runs/ParkedRun.ts"
import { errorForCaller } from "./JobView.ts"
import { span } from "./TimeSpan.ts"
import { breakdownOf, type KnownStart } from "./WaitBreakdown.ts"

/** What is known about the job, the queue and the workers at one moment. */
export interface ExplainInput {
  readonly job: JobReport
  /** The number of ready jobs ahead of this one; null if this job is not ready. */
  readonly ahead: Ahead | null
  /** The jobs with the same concurrency key, if this job is held because of them. */
  readonly key?: KeyUsage | undefined
  /** Whether the job is a run of a pipeline that a worker has begun. Its attempts are activations, which have no maximum. */
  readonly isRun: boolean
  /** What the job waits for, if it is a parked run of a pipeline. */
  readonly run?: ParkedRun | undefined
  readonly depth: Pick<Depth, "waiting">
  readonly endpoint: Pick<Endpoint, "id" | "source" | "workers" | "errorTraceback" | "concurrency" | "model" | "previousRelease">
  /** The state of the endpoint's model. Undefined for an endpoint without one. */
  readonly model: ModelState | undefined
  readonly workers: ReadonlyArray<
    Pick<WorkerStatus, "state" | "reason" | "retryAt" | "firstSeenAt" | "idleSince" | "pull" | "setup">
  >
  /** The endpoint's rollout in progress, or its last rollout if that failed. */
  readonly roll?: RollState | undefined
  /** How the worker of the last attempt started. */
  readonly workerStart: KnownStart
  /** How the worker that has the job collects jobs; undefined if it runs each job alone, or if that is unknown. */
  readonly batch?: WorkerBatch | undefined
  readonly now: number
}

/** A live worker takes a waiting job within milliseconds. One that has not taken it after this time, in milliseconds, is probably stuck. */
const UNUSED_MILLIS = 3_000

const count = (amount: number, one: string, many = `${one}s`): string => `${amount} ${amount === 1 ? one : many}`

/** The first line, shortened to fit into a sentence, without a full stop. */
const firstLine = (text: string): string => excerpt(text.split("\n", 1)[0] ?? "").replace(/\.$/, "")

/** The same with what the worker printed last. */
const summary = (reason: string): string => excerpt(summaryOfExit(reason)).replace(/\.$/, "")

type WaitCause = Pick<Explanation, "reason" | "words" | "startAt" | "nextRetryAt" | "cause">

const waitCause = (reason: WaitReason, words: string, rest: Omit<WaitCause, "reason" | "words"> = {}): WaitCause => ({
  reason,
  words,
  ...rest
})

/** The job's position in the queue, as the start of a sentence. */
const inLine = (ahead: Ahead | null): string => {
  if (ahead === null) return "It is waiting"
  if (ahead.jobs === 0) return "It is first in the queue"
  return `${ahead.more ? "More than " : ""}${count(ahead.jobs, "job")} ${
    ahead.jobs === 1 && !ahead.more ? "is" : "are"
  } ahead of it`
}

/** The explanation while the endpoint's model is missing; undefined if the job waits for something else. */
const waitingForModel = (line: string, { endpoint, model, now }: ExplainInput): WaitCause | undefined => {
  // During a rollout, workers of the previous release may start without the model of the new one.
  if (model === undefined || model._tag === "Ready" || endpoint.previousRelease !== undefined) return undefined
  if (model._tag === "Downloading") {
    const retry = model.problem === undefined ? "" : ` The download is being retried: ${firstLine(model.problem)}.`
    return waitCause(
      "model",
      `${line}, and the endpoint's model ${endpoint.model ?? ""} is being downloaded: ${
        progressText(model, now)
      }.${retry} A worker starts when it is there.`
    )
  }
  const { reason, retryAt } = model
  const later = Number.isFinite(retryAt) && retryAt > now
  return waitCause(
    "failing",
    `${line}. ${firstLine(reason)}. ${
      later ? `The next attempt is in ${span(retryAt - now)}.` : "The download will be retried."
    }`,
    { cause: reason, ...(later ? { nextRetryAt: retryAt } : {}) }
  )
}

/** A sentence about the starting worker whose setup began first. */
const setupWords = (starting: ExplainInput["workers"], now: number): string => {
  const [first] = starting.flatMap(({ setup }) => setup ?? []).toSorted((a, b) => a.startedAt - b.startedAt)
  if (first === undefined) return ""
  return ` Its setup has run for ${span(now - first.startedAt)} of at most ${span(first.limitAt - first.startedAt)}.`
}

/** A sentence about each image that is being pulled for a starting worker. */
const pullWords = (starting: ExplainInput["workers"]): string => {
  const pulls = new Map(starting.flatMap(({ pull }) => pull === undefined ? [] : [[pull.image, pull.progress]]))
  return Array.from(pulls, ([image, progress]) => ` The image ${excerpt(image)} is being pulled: ${pullText(progress)}.`).join("")
}

/** The explanation for a job that is waiting for a worker. */
const waiting = (facts: ExplainInput): WaitCause => {
  const { ahead, endpoint, job, now, workers } = facts
  const inState = (...states: ReadonlyArray<WorkerState>) => workers.filter(({ state }) => states.includes(state))
  const { max } = endpoint.workers
  const external = endpoint.source.type === "external"
  const line = job.isolated
    ? `${inLine(ahead)} and runs on a worker without other jobs, because its last worker was lost`
    : inLine(ahead)
  const idle = inState("idle").length
  const busy = inState("running").length
  const starting = inState("initializing")
  const draining = inState("draining").length
  const live = idle + busy + starting.length + draining

  if (idle > 0) {
    const unused = Math.min(...inState("idle").map(({ idleSince }) => now - Math.max(idleSince ?? now, job.queuedAt)))
    if (unused >= UNUSED_MILLIS) {
      const what = idle === 1 ? "1 worker is idle but has" : `${idle} workers are idle but have`
      return waitCause(
        "failing",
        `${line}; ${what} not taken it for ${span(unused)}. ${
          external
            ? "Check the output of the worker, and restart it."
            : "The platform replaces a worker that takes no job for 10 s. Check its output in the platform's log."
        }`
      )
    }
    return waitCause(
      "next",
      `${line}; ${count(idle, "worker is", "workers are")} idle and will take the next job.`
    )
  }
  const drainWords = draining === 0
    ? ""
    : ` ${count(draining, "worker is", "workers are")} draining and ${draining === 1 ? "takes" : "take"} no more jobs.`
  if (external && busy + starting.length === 0) {
    return waitCause(
      "external",
      `${line}, and no worker ${
        draining === 0 ? "is connected." : "takes jobs."
      }${drainWords} The platform does not start workers for this endpoint. ` +
        `Start one with the variables that \`stint worker-env ${endpoint.id}\` prints.`
    )
  }
  if (!external && max === 0) {
    return waitCause(
      "paused",
      `${line}, and the endpoint is paused: its workers.max is 0. Set workers.max to 1 or more to run the job.`
    )
  }
  const [failed] = inState("throttled", "unhealthy")
  if (starting.length > 0) {
    const before = failed?.state === "unhealthy" && failed.reason !== null ? failed.reason : undefined
    const since = Math.min(...starting.map(({ firstSeenAt }) => firstSeenAt))
    return waitCause(
      "starting",
      `${line}; ${count(starting.length, "worker is", "workers are")} starting, the oldest for ${span(now - since)}.${
        setupWords(starting, now)
      }${pullWords(starting)}${before === undefined ? "" : ` The last start failed: ${summary(before)}.`}`,
      before === undefined ? {} : { cause: before }
    )
  }
  if (external) {
    return waitCause(
      "behind",
      `${line}; ${count(busy, "worker is", "workers are all")} busy. The job starts when a worker is free.${drainWords}`
    )
  }
  if (live >= max) {
    return waitCause(
      "behind",
      `${line}, and the endpoint's maximum of ${count(max, "worker")} (workers.max) is busy.${drainWords} ` +
        "The job starts when a worker is free; raise workers.max to add workers."
    )
  }
  const forModel = job.lowPriority && busy === 0 ? undefined : waitingForModel(line, facts)
  if (forModel !== undefined) return forModel
  if (failed !== undefined && failed.reason !== null) {
    const { reason, retryAt, state } = failed
    const later = retryAt !== null && retryAt > now
    const next = later ? `The next start is tried in ${span(retryAt - now)}.` : "The next start is in progress."
    return waitCause(
      state === "throttled" ? "throttled" : "failing",
      `${line}, and ${state === "throttled" ? "there is no capacity for a worker" : "workers fail to start"}: ${
        summary(reason)
      }. ${next}`,
      { cause: reason, ...(later ? { nextRetryAt: retryAt } : {}) }
    )
  }
  if (job.lowPriority && busy === 0) {
    return waitCause(
      "low-priority",
      `${line}. It was submitted with lowPriority, so it does not start a worker. It waits for a worker that another job or workers.min starts.`
    )
  }
  if (busy > 0) {
    return waitCause(
      "behind",
      `${line}; ${busy} of at most ${count(max, "worker")} ${
        busy === 1 ? "is" : "are"
      } busy, and the autoscaler adds one when needed.`
    )
  }
  return waitCause("next", `${line}; a worker is being started.`)
}

const rollWords = ({ reason = "no reason is stored", release, serving, state }: RollState): string => {
  switch (state) {
    case "rolling":
      return `Release ${release} is being deployed: release ${serving} serves until a worker of release ${release} is ready.`
    case "canary":
      return `Release ${release} is a canary: its workers take a part of the jobs, and those of release ${serving} all others.`
    case "failed":
      return `Release ${release} failed, so release ${serving} keeps serving: ${summary(reason)}.`
  }
}

/** The jobs for which a held job waits. */
const concurrencyOf = ({ endpoint, job, key }: ExplainInput): Explanation["concurrency"] =>
  job.concurrency === null || !job.concurrency.held || key === undefined ? undefined : {
    key: job.concurrency.key,
    limit: endpoint.concurrency?.limit ?? job.concurrency.limit,
    running: key.running,
    ready: key.ready,
    ahead: key.held
  }

const heldWords = ({ ahead, key, limit, ready, running }: NonNullable<Explanation["concurrency"]>): string => {
  const named = key === "" ? "without a concurrency key in their input" : `with key ${excerpt(key)}`
  const taken = ready === 0 ? "" : ` and ${ready} ${ready === 1 ? "is" : "are"} next`
  const before = ahead === 0
    ? "It is the next of them."
    : `${count(ahead, "more job")} ${ahead === 1 ? "waits" : "wait"} before it.`
  return `${count(running, "job")} ${named} ${running === 1 ? "is" : "are"} running${taken}, the limit is ${limit}. ${before} ` +
    "It becomes ready when one of them ends; the endpoint's concurrency.limit sets their number."
}

/** A sentence about the jobs with which the job runs. Its worker has it already while it collects the others. */
const batchWords = (batch: WorkerBatch | undefined): string => {
  if (batch === undefined) return ""
  const { max, waitMs } = batch
  return waitMs === 0
    ? ` Its worker runs up to ${max} jobs in one call, and collects them while another call runs.`
    : ` Its worker collects up to ${max} jobs for at most ${span(waitMs)}, or while another call runs, and runs them in one call.`
}

/** Used when the run woke while its steps were being read. */
const NO_STEPS: ParkedRun = { definition: "", phase: "doing", held: null, steps: [], more: false }

const waitCauseOf = (facts: ExplainInput): WaitCause => {
  const { isRun, job, now } = facts
  const tried = isRun ? `activation ${job.attempt}` : `attempt ${job.attempt} of ${job.maxAttempts}`
  if (isTerminal(job.status)) {
    return waitCause("ended", `It has ended: ${job.status}${job.attempt === 0 ? " before any attempt" : ` in ${tried}`}.`)
  }
  if (isParked(job)) {
    const run = facts.run ?? NO_STEPS
    return waitCause(run.held === null ? "parked" : "held", parkedWords(run, facts.endpoint.id, job.id, now))
  }
  if (job.status === "IN_PROGRESS") {
    const silence = job.leaseExpiresAt === null
      ? ""
      : ` The worker loses the job unless it sends a heartbeat within ${span(job.leaseExpiresAt - now)}.`
    return waitCause(
      "running",
      `Worker ${excerpt(job.worker ?? "")} is running it (${tried}, for ${span(now - (job.startedAt ?? now))}).${
        batchWords(facts.batch)
      }${silence}`
    )
  }
  const cause = job.lastError === null ? undefined : errorForCaller(job.lastError, facts.endpoint)
  if (isScheduled(job) && job.notBefore > now) {
    return waitCause(
      "scheduled",
      `It was submitted to start at ${new Date(job.notBefore).toISOString()}, in ${span(job.notBefore - now)}.`,
      { startAt: job.notBefore }
    )
  }
  if (job.notBefore !== null && job.notBefore > now) {
    const because = cause === undefined ? "" : `: ${firstLine(cause)}`
    return waitCause(
      "backoff",
      `${tried.replace("a", "A")} failed${because}. The next ${isRun ? "activation" : "attempt"} starts in ${
        span(job.notBefore - now)
      } at the earliest.`,
      { nextRetryAt: job.notBefore, ...(cause === undefined ? {} : { cause }) }
    )
  }
  const held = concurrencyOf(facts)
  const found = held === undefined ? waiting(facts) : waitCause("concurrency", heldWords(held))
  const words = facts.roll === undefined ? found.words : `${found.words} ${rollWords(facts.roll)}`
  return { ...(cause === undefined ? {} : { cause }), ...found, words }
}

/** Explains a job's state. */
export const explain = (facts: ExplainInput): Explanation => {
  const { ahead, depth, endpoint, job, roll, workers } = facts
  const countOf = (state: WorkerState) => workers.filter((worker) => worker.state === state).length
  const place = ahead === null ? undefined : ahead.jobs + 1
  const wait = breakdownOf(job, facts.workerStart)
  const concurrency = concurrencyOf(facts)
  const running = job.status === "IN_PROGRESS" && job.worker !== null && job.leaseExpiresAt !== null
  return {
    ...waitCauseOf(facts),
    // The two numbers were not counted at the same moment, so `waiting` may be stale.
    ...(place === undefined ? {} : { position: { place, of: Math.max(place, depth.waiting), more: ahead?.more ?? false } }),
    ...(concurrency === undefined ? {} : { concurrency }),
    workers: {
      max: endpoint.source.type === "external" ? null : endpoint.workers.max,
      idle: countOf("idle"),
      initializing: countOf("initializing"),
      running: countOf("running"),
      draining: countOf("draining"),
      throttled: countOf("throttled"),
      unhealthy: countOf("unhealthy")
    },
    ...(facts.run === undefined ? {} : { waitsFor: facts.run.steps }),
    ...(running && job.worker !== null && job.leaseExpiresAt !== null
      ? { lease: { worker: job.worker, expiresAt: job.leaseExpiresAt, attempt: job.attempt } }
      : {}),
    ...(job.release === null ? {} : { release: job.release }),
    ...(roll === undefined || job.status !== "IN_QUEUE" ? {} : { roll }),
    ...(wait === undefined ? {} : { wait }),
    attempts: { made: job.attempt, most: facts.isRun ? null : job.maxAttempts },
    createdAt: job.createdAt,
    queuedAt: job.queuedAt,
    ...(job.startedAt === null ? {} : { startedAt: job.startedAt }),
    ...(job.finishedAt === null ? {} : { finishedAt: job.finishedAt }),
    ...(isTerminal(job.status) ? {} : { expiresAt: job.expiresAt })
  }
}

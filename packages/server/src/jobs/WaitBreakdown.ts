/**
 * How the time that a job waited for its last attempt was spent (docs/spec/jobs-api.md#the-parts-of-a-wait). Pure.
 *
 * ```
 *   ready to run --queue--> worker requested --pull--> has its image --create--> created --start--> first call --prepare--> asks for a job --take--> claimed
 *                                                                                         setup begins --setup--> asks for a job
 * ```
 *
 * Every boundary is clamped to the wait, so the parts add up to it. If the worker was already asking for jobs when this job became ready, only `take`
 * remains.
 */
import type { WaitBreakdown, WaitPart } from "@stint/contract/Explanation"
import type { WorkerStart } from "@stint/queue/WorkerRegistry"
import type { JobReport } from "@stint/store/JobRecord"

/** What is known about the start of the job's worker. */
export interface KnownStart {
  /** Undefined if no pool of this process started the worker, or if its start is no longer remembered. */
  readonly start: Readonly<WorkerStart> | undefined
  /** Starts before this time are unknown. Milliseconds since 1970. */
  readonly knownSince: number
}

const phrases: Record<WaitPart["phase"], (time: string) => string> = {
  queue: (time) => `${time} until its worker was requested`,
  pull: (time) => `${time} to pull its image`,
  create: (time) => `${time} to create the worker`,
  start: (time) => `${time} for the worker to start`,
  setup: (time) => `${time} for its setup`,
  prepare: (time) => `${time} until the worker asked for a job`,
  take: (time) => `${time} to be taken`
}

const unknownWords = {
  restarted: "what the time was spent on is unknown, because the platform was restarted since",
  "unknown-worker":
    "what the time was spent on is unknown, because the platform did not start the worker, or has started many others since"
}

/** A wait whose parts are known. */
const known = (millis: number, parts: ReadonlyArray<WaitPart>, standby: boolean): WaitBreakdown => {
  const [only] = parts
  const isStart = parts.some(({ phase }) => phase === "start")
  const words = parts.length === 0
    ? "it was taken at once"
    : parts.length === 1 && only?.phase === "take"
    ? "until a running worker took it"
    : parts.map((part) => phrases[part.phase](`${part.millis} ms`)).join(", ")
  return standby && isStart
    ? { millis, words: `${words}; a standby process became the worker`, parts, standby }
    : { millis, words, parts }
}

/** The breakdown; undefined while the job waits, and when no worker has taken it since it became ready. */
export const breakdownOf = (
  { queuedAt, startedAt, status, worker }: Pick<JobReport, "status" | "queuedAt" | "startedAt" | "worker">,
  { knownSince, start }: KnownStart
): WaitBreakdown | undefined => {
  if (startedAt === null || worker === null || status === "IN_QUEUE" || startedAt < queuedAt) return undefined
  const millis = startedAt - queuedAt
  if (start === undefined) {
    const unknown = startedAt < knownSince ? "restarted" : "unknown-worker"
    return { millis, words: unknownWords[unknown], parts: [], unknown }
  }
  const parts: Array<WaitPart> = []
  let from = queuedAt
  const until = (phase: WaitPart["phase"], at: number | null) => {
    const end = Math.max(from, Math.min(at ?? from, startedAt))
    if (end > from) parts.push({ phase, millis: end - from })
    from = end
  }
  until("queue", start.requestedAt)
  until("pull", start.pulledAt ?? null)
  until("create", start.createdAt)
  until("start", start.calledAt)
  if (start.setupAt === undefined) until("prepare", start.readyAt)
  else {
    // The time between a first call of another kind and the setup.
    until("prepare", start.setupAt)
    until("setup", start.readyAt)
  }
  until("take", startedAt)
  return known(millis, parts, start.standby === true)
}

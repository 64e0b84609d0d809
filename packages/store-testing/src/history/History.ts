/**
 * Records what outside observers see of jobs, and checks it against the invariants of the queue.
 *
 * ```
 *   callers, workers, readers, webhooks --record--> events, in the order observed --check--> violations of R1 to R5, R8 to R10
 * ```
 *
 * The checker does not depend on a store, clock or process, so the same checker works for model tests, simulations and tests that kill real
 * processes. The invariants are defined in docs/spec/figures.md#reliability.
 */
import { isTerminal, type JobStatus } from "@stint/contract/Job"
import * as StreamReads from "./StreamReads.ts"

/**
 * An observation. `at` is the time at which the observer received it, according to any monotonic clock. `askedAt` is the time at which the
 * request was sent, if the response took time. The observation was true at some time between the two.
 */
export type HistoryEvent =
  /** The submission was acknowledged. */
  | {
    readonly _tag: "Submitted"
    readonly at: number
    readonly job: string
    /** The idempotency key, if any: one job per key (R3). */
    readonly key?: string
    /** The number of attempts that may fail when errors are retried. Absent: an error ends the job. */
    readonly attempts?: number
    /** Whether a webhook receives the job's end (R10). */
    readonly webhook?: boolean
  }
  /** A worker took the job. */
  | { readonly _tag: "Started"; readonly at: number; readonly job: string; readonly worker: string; readonly attempt: number }
  /** A worker received the response to its result. */
  | {
    readonly _tag: "Delivered"
    readonly at: number
    readonly job: string
    readonly worker: string
    readonly attempt: number
    readonly askedAt?: number
    /** `answered`: the result was delivered over HTTP, where the response does not show whether it was accepted or ignored. */
    readonly verdict: "accepted" | "answered" | "ignored" | "refused"
    /** Whether an error was delivered, with or without an output. */
    readonly failed?: boolean
    readonly output: string | null
  }
  /** A worker's chunk was refused, because the worker no longer held the job. */
  | { readonly _tag: "ChunkRefused"; readonly at: number; readonly job: string; readonly attempt: number }
  /** A cancel returned CANCELLED. */
  | { readonly _tag: "Cancelled"; readonly at: number; readonly job: string }
  /** A running handler received the signal to stop. */
  | { readonly _tag: "Interrupted"; readonly at: number; readonly job: string }
  /** A retry was acknowledged: the job starts over. */
  | { readonly _tag: "Retried"; readonly at: number; readonly job: string }
  /** A caller read the job. `attempt` is set if the observer can see it. */
  | {
    readonly _tag: "Seen"
    readonly at: number
    readonly askedAt?: number
    readonly job: string
    readonly status: JobStatus
    readonly attempt?: number
    readonly output: string | null
  }
  /** A caller read the job, and it did not exist. */
  | { readonly _tag: "Unknown"; readonly at: number; readonly job: string }
  /** A webhook delivered the job's end. `accepted`: whether the receiver acknowledged it. */
  | {
    readonly _tag: "Notified"
    readonly at: number
    readonly job: string
    readonly status: JobStatus
    readonly signed: boolean
    readonly accepted: boolean
  }
  | StreamReads.StreamReadEvent

/** What the checker requires of a history. */
export interface Expectations {
  /** Whether all work is done, so that every job must have ended. Default: true. */
  readonly ended?: boolean
  /** Whether there were no failures and no cancels, so that every job must have started exactly once (R4). Default: false. */
  readonly faultless?: boolean
  /** Whether jobs may have been removed after their retention. Default: false. */
  readonly mayForget?: boolean
  /**
   * How long after the response to a cancel a job may still be seen to start, in units of `at`: the response to the worker's take may already
   * have been in flight. Default: 0, which suits observers inside the process.
   */
  readonly cancelGrace?: number
  /** The time by which every job must have been observed as ended (R5), in units of `at`. Default: no limit. */
  readonly endedBy?: number
  /** How long after the response to a cancel a running handler may continue (R8), in units of `at`. Default: no limit. */
  readonly interruptWithin?: number
  /** Whether a receiver must have accepted the end of every job that has a webhook (R10). Default: false. */
  readonly notified?: boolean
}

/** A broken rule, and the job that broke it. */
export interface Violation {
  readonly rule: string
  readonly job: string
  readonly text: string
}

/** A history that records events. */
export interface History {
  readonly record: (event: HistoryEvent) => void
  readonly events: () => ReadonlyArray<HistoryEvent>
  readonly check: (expectations?: Expectations) => ReadonlyArray<Violation>
}

type EventOf<Tag extends HistoryEvent["_tag"]> = Extract<HistoryEvent, { readonly _tag: Tag }>

/** What the checker knows about a job so far. */
interface Trace {
  submitted: EventOf<"Submitted"> | undefined
  /** The attempts that workers took, including those before a retry by a caller. */
  readonly attempts: Set<number>
  highestAttempt: number
  /** When the highest attempt was observed. */
  highestAt: number
  last: EventOf<"Seen"> | EventOf<"Unknown"> | undefined
  /** When the latest retry by a caller was observed; -Infinity before the first one. */
  bornAt: number
  /** The first webhook that delivered an end. */
  notified: EventOf<"Notified"> | undefined
  hasNotified: boolean
  /** The outputs that workers delivered over HTTP, by attempt. */
  readonly answered: Map<number, string | null>
  /** This field and the fields below describe the time since the latest retry by a caller. */
  starts: number
  /** Attempts whose errors were accepted and are retried. */
  readonly errors: Set<number>
  interrupted: EventOf<"Interrupted"> | undefined
  ended: EventOf<"Seen"> | undefined
  accepted: EventOf<"Delivered"> | undefined
  cancelled: EventOf<"Cancelled"> | undefined
}

const newTrace = (): Trace => ({
  submitted: undefined,
  attempts: new Set(),
  highestAttempt: 0,
  highestAt: -Infinity,
  last: undefined,
  bornAt: -Infinity,
  notified: undefined,
  hasNotified: false,
  answered: new Map(),
  starts: 0,
  errors: new Set(),
  interrupted: undefined,
  ended: undefined,
  accepted: undefined,
  cancelled: undefined
})

/** Checks events in the order in which they were observed. The result is empty when no rule is broken. */
export const check = (events: ReadonlyArray<HistoryEvent>, expectations: Expectations = {}): ReadonlyArray<Violation> => {
  const { cancelGrace = 0, ended = true, endedBy, faultless = false, interruptWithin, mayForget = false, notified = false } =
    expectations
  const violations: Array<Violation> = []
  const traces = new Map<string, Trace>()
  /** The job of each idempotency key. */
  const keys = new Map<string, string>()
  /** Collected in advance, because a worker may deliver a result before the caller receives the response to its submission. */
  const allowed = new Map(
    events.flatMap((event) => event._tag === "Submitted" && event.attempts !== undefined ? [[event.job, event.attempts]] : [])
  )
  const reads = StreamReads.make()

  const traceOf = (job: string): Trace => {
    let trace = traces.get(job)
    if (trace === undefined) {
      trace = newTrace()
      traces.set(job, trace)
    }
    return trace
  }

  const violate = (rule: string, job: string, text: string) => {
    violations.push({ rule, job, text })
  }

  const reached = (trace: Trace, attempt: number, at: number) => {
    if (attempt <= trace.highestAttempt) return
    trace.highestAttempt = attempt
    trace.highestAt = at
  }

  const started = (trace: Trace, { at, attempt, job, worker }: EventOf<"Started">) => {
    if (trace.attempts.has(attempt)) violate("R2", job, `attempt ${attempt} was handed out twice, the second time to ${worker}`)
    trace.attempts.add(attempt)
    reached(trace, attempt, at)
    trace.starts += 1
    if (trace.cancelled !== undefined && at > trace.cancelled.at + cancelGrace) {
      violate("R8", job, `attempt ${attempt} started at ${at}, after the cancel was acknowledged at ${trace.cancelled.at}`)
    }
  }

  const submitted = (trace: Trace, event: EventOf<"Submitted">) => {
    trace.submitted = event
    if (event.key === undefined) return
    const known = keys.get(event.key)
    if (known !== undefined && known !== event.job) {
      violate("R3", event.job, `the key ${event.key} already belongs to job ${known}`)
    }
    keys.set(event.key, event.job)
  }

  /** Handles an accepted error of a job whose errors are retried. The error ends the attempt, not the job. */
  const erred = (trace: Trace, { attempt, job }: EventOf<"Delivered">, most: number) => {
    if (trace.errors.has(attempt)) violate("R2", job, `the error of attempt ${attempt} was accepted twice`)
    trace.errors.add(attempt)
    if (trace.errors.size > most) violate("R2", job, `${trace.errors.size} attempts failed, and ${most} are allowed`)
  }

  const delivered = (trace: Trace, event: EventOf<"Delivered">) => {
    const { askedAt = event.at, attempt, failed = false, job, worker } = event
    const attempts = allowed.get(job)
    const retried = failed && attempts !== undefined
    if (event.verdict === "answered") {
      if (!failed) trace.answered.set(attempt, event.output)
      if (attempt < trace.highestAttempt && askedAt >= trace.highestAt && !retried) {
        violate("R2", job, `the result of attempt ${attempt} got a response after attempt ${trace.highestAttempt} had started`)
      }
    }
    if (event.verdict !== "accepted") return
    // The response to an error that is retried may arrive after the result of the next attempt.
    if (trace.accepted !== undefined && !(retried && askedAt < trace.accepted.at)) {
      violate("R2", job, `two results were accepted: of attempt ${trace.accepted.attempt} and of attempt ${attempt} (${worker})`)
    }
    if (attempt < trace.highestAttempt && askedAt >= trace.highestAt) {
      violate("R2", job, `the result of attempt ${attempt} was accepted after attempt ${trace.highestAttempt} had started`)
    }
    if (trace.errors.has(attempt) && !retried) violate("R2", job, `attempt ${attempt} ended with an error and then with a result`)
    if (retried) erred(trace, event, attempts)
    else trace.accepted = event
  }

  const chunkWritten = (trace: Trace, { askedAt, at, attempt, job, number }: EventOf<"ChunkWritten">) => {
    if (attempt < trace.highestAttempt && (askedAt ?? at) >= trace.highestAt) {
      violate("R2", job, `chunk ${number} of attempt ${attempt} was stored after attempt ${trace.highestAttempt} had started`)
    }
  }

  /** Compares an observed status with the status that a webhook delivered earlier. Skips retried jobs, because they end more than once. */
  const agrees = (trace: Trace, { at, job }: HistoryEvent, status: JobStatus, askedAt = at) => {
    const { notified } = trace
    if (notified === undefined || trace.bornAt !== -Infinity) return
    if (status === notified.status || (!isTerminal(status) && askedAt < notified.at)) return
    violate("R10", job, `a webhook delivered ${notified.status}, and then the job was ${status}`)
  }

  const notify = (trace: Trace, event: EventOf<"Notified">) => {
    const { accepted, job, signed, status } = event
    if (!signed) violate("R10", job, "the signature of its webhook is wrong")
    if (!isTerminal(status)) violate("R10", job, `a webhook delivered its end while it was ${status}`)
    if (trace.ended !== undefined) agrees({ ...trace, notified: event }, event, trace.ended.status)
    agrees(trace, event, status)
    trace.notified ??= event
    trace.hasNotified ||= accepted
  }

  const seen = (trace: Trace, event: EventOf<"Seen">) => {
    const { askedAt = event.at, attempt, job, output, status } = event
    // The request was sent before the response to a retry arrived, so its response may describe the job before or after the retry.
    if (askedAt < trace.bornAt) return
    const { accepted, cancelled, ended } = trace
    const state = `${status} with ${output}`
    if (attempt !== undefined) {
      if (attempt < trace.highestAttempt && askedAt >= trace.highestAt) {
        violate("R2", job, `its attempt shrank from ${trace.highestAttempt} to ${attempt}`)
      }
      reached(trace, attempt, event.at)
    }
    if (
      ended !== undefined && (isTerminal(status) || askedAt >= ended.at) && (ended.status !== status || ended.output !== output)
    ) {
      violate("R2", job, `it had ended ${ended.status} with ${ended.output} and was then ${state}`)
    }
    if (accepted !== undefined && (isTerminal(status) || askedAt >= accepted.at)) {
      if ((status !== "COMPLETED" && status !== "FAILED") || output !== accepted.output) {
        violate(
          "R2",
          job,
          `the result of attempt ${accepted.attempt} was accepted (${accepted.output}), and then it was ${state}`
        )
      }
    }
    if (cancelled !== undefined && status !== "CANCELLED" && (isTerminal(status) || askedAt >= cancelled.at)) {
      violate("R8", job, `its cancel was acknowledged, and then it was ${state}`)
    }
    agrees(trace, event, status, askedAt)
    if (status === "COMPLETED" && trace.answered.size > 0 && ![...trace.answered.values()].includes(output)) {
      violate("R2", job, `it is ${state}, which no worker delivered`)
    }
    if (isTerminal(status)) trace.ended ??= event
  }

  for (const event of events) {
    const trace = traceOf(event.job)
    switch (event._tag) {
      case "Submitted":
        submitted(trace, event)
        break
      case "Started":
        started(trace, event)
        break
      case "Delivered":
        delivered(trace, event)
        break
      case "Cancelled":
        trace.cancelled ??= event
        break
      case "Retried":
        Object.assign(trace, { bornAt: event.at, starts: 0, ended: undefined, accepted: undefined, cancelled: undefined })
        trace.interrupted = undefined
        trace.errors.clear()
        reads.retried(event.job)
        break
      case "Interrupted":
        trace.interrupted ??= event
        break
      case "Notified":
        notify(trace, event)
        break
      case "ChunkWritten":
        chunkWritten(trace, event)
        reads.record(event)
        break
      case "ChunkRead":
      case "EndRead":
        reads.record(event)
        break
      case "Seen":
        seen(trace, event)
        trace.last = event
        break
      case "ChunkRefused":
        break
      case "Unknown":
        if (trace.submitted !== undefined && !mayForget) violate("R1", event.job, "it was acknowledged and does not exist")
        trace.last = event
        break
    }
  }

  for (const [job, trace] of traces) {
    if (trace.submitted === undefined) continue
    if (trace.last === undefined) {
      violate("R1", job, "it was acknowledged and never read afterwards")
    } else if (ended && trace.last._tag === "Seen" && !isTerminal(trace.last.status)) {
      violate("R1", job, `it was acknowledged and is still ${trace.last.status}`)
    }
    if (faultless && trace.starts !== 1) violate("R4", job, `it started ${trace.starts} times although nothing failed`)
    if (endedBy !== undefined && (trace.ended === undefined || trace.ended.at > endedBy)) {
      violate("R5", job, `it should have ended by ${endedBy}; it was observed as ended at ${trace.ended?.at ?? "no time"}`)
    }
    const { cancelled, interrupted } = trace
    if (interruptWithin !== undefined && cancelled !== undefined && trace.starts > 0) {
      if (interrupted === undefined) violate("R8", job, "its cancel was acknowledged, and its handler was never interrupted")
      else if (interrupted.at > cancelled.at + interruptWithin) {
        violate("R8", job, `its handler was interrupted ${interrupted.at - cancelled.at} after the cancel was acknowledged`)
      }
    }
    if (notified && trace.submitted.webhook === true && !trace.hasNotified) {
      violate("R10", job, "no receiver accepted its end")
    }
  }
  for (const { job, text } of reads.violations()) violate("R9", job, text)
  return violations
}

/** The numbers of acknowledged jobs, broken rules, and faults that the history shows. */
export const count = (
  events: ReadonlyArray<HistoryEvent>,
  violations: ReadonlyArray<Violation>
): { readonly jobs: number; readonly lost: number; readonly "stale writes refused": number; readonly cancels: number } => {
  const ofTag = (...tags: ReadonlyArray<HistoryEvent["_tag"]>) => events.filter(({ _tag }) => tags.includes(_tag))
  const distinct = (all: ReadonlyArray<{ readonly job: string }>) => new Set(all.map(({ job }) => job)).size
  const refused = events.filter((event) =>
    event._tag === "ChunkRefused" || (event._tag === "Delivered" && event.verdict === "refused")
  )
  return {
    jobs: distinct(ofTag("Submitted")),
    lost: distinct(violations.filter(({ rule }) => rule === "R1")),
    "stale writes refused": refused.length,
    cancels: distinct(ofTag("Cancelled"))
  }
}

/** An empty history. */
export const make = (): History => {
  const events: Array<HistoryEvent> = []
  return {
    record: (event) => {
      events.push(event)
    },
    events: () => events,
    check: (expectations) => check(events, expectations)
  }
}

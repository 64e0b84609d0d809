/**
 * What happened to jobs, as seen from outside, and whether that is allowed.
 *
 * A test records what it submitted, what workers were handed and delivered, what callers were told, in the order in which it learned of
 * it. {@link check} then holds the whole against the invariants of the queue
 * (R1 to R5 and R8 to R10, docs/spec/figures.md#reliability). It knows nothing of stores,
 * clocks or processes, so that one checker serves model tests, simulations and tests that kill real processes.
 */
import { isTerminal, type JobStatus } from "@stint/contract/Job"
import * as StreamReads from "./StreamReads.ts"

/**
 * One observation. `at` is when the observer learned of it, by any clock that only goes forward; `askedAt`, where the answer may have
 * been on its way for a while, is when the question was asked. What it tells of was true at some time between the two.
 */
export type HistoryEvent =
  /** The submission was acknowledged. */
  | {
    readonly _tag: "Submitted"
    readonly at: number
    readonly job: string
    /** What it stands for, where it was submitted with an idempotency key: one job a key (R3). */
    readonly key?: string
    /** Errors are tried again: so many attempts may come to nothing. Absent: an error ends the job. */
    readonly attempts?: number
    /** Its end is told to a webhook (R10). */
    readonly webhook?: boolean
  }
  /** A worker was handed the job. */
  | { readonly _tag: "Started"; readonly at: number; readonly job: string; readonly worker: string; readonly attempt: number }
  /** A worker was told what became of its result. */
  | {
    readonly _tag: "Delivered"
    readonly at: number
    readonly job: string
    readonly worker: string
    readonly attempt: number
    readonly askedAt?: number
    /** `answered`: by the wire, which does not tell whether the result was accepted or changed nothing. */
    readonly verdict: "accepted" | "answered" | "ignored" | "refused"
    /** An error was delivered, with or without an output. */
    readonly failed?: boolean
    readonly output: string | null
  }
  /** A cancel was answered with CANCELLED. */
  | { readonly _tag: "Cancelled"; readonly at: number; readonly job: string }
  /** A handler that was running saw that its job is to stop. */
  | { readonly _tag: "Interrupted"; readonly at: number; readonly job: string }
  /** A retry was acknowledged: the job begins a new life. */
  | { readonly _tag: "Retried"; readonly at: number; readonly job: string }
  /** Somebody looked at the job. `attempt` where the observer can see it. */
  | {
    readonly _tag: "Seen"
    readonly at: number
    readonly askedAt?: number
    readonly job: string
    readonly status: JobStatus
    readonly attempt?: number
    readonly output: string | null
  }
  /** Somebody looked, and the job was not there. */
  | { readonly _tag: "Unknown"; readonly at: number; readonly job: string }
  /** A webhook came and told of the end of the job. `accepted`: the receiver answered that it has it. */
  | {
    readonly _tag: "Notified"
    readonly at: number
    readonly job: string
    readonly status: JobStatus
    readonly signed: boolean
    readonly accepted: boolean
  }
  | StreamReads.StreamReadEvent

/** What to expect. */
export interface Expectations {
  /** The work is over: every job has to have ended by now. Default: true. */
  readonly ended?: boolean
  /** Nothing failed and nobody cancelled: every job has to have started exactly once (R4). Default: false. */
  readonly faultless?: boolean
  /** Retention may have removed jobs. Default: false. */
  readonly mayForget?: boolean
  /**
   * How long after the answer to a cancel the news of a start may still arrive, in units of `at`: the worker's answer may have been on
   * its way. Default: 0, for observers inside the process.
   */
  readonly cancelGrace?: number
  /** By when every job has to have been seen to be ended (R5), in units of `at`. Default: no time. */
  readonly endedBy?: number
  /** How long after the answer to a cancel a running handler may go on (R8), in units of `at`. Default: as long as it likes. */
  readonly interruptWithin?: number
  /** The end of every job with a webhook has to have been told, and accepted, by now (R10). Default: false. */
  readonly notified?: boolean
}

/** A rule that was broken, and by which job. */
export interface Violation {
  readonly rule: string
  readonly job: string
  readonly text: string
}

/** A history that grows. */
export interface History {
  readonly record: (event: HistoryEvent) => void
  readonly events: () => ReadonlyArray<HistoryEvent>
  readonly check: (expectations?: Expectations) => ReadonlyArray<Violation>
}

type EventOf<Tag extends HistoryEvent["_tag"]> = Extract<HistoryEvent, { readonly _tag: Tag }>

/** What the checker knows of a job while it goes through the events. */
interface Trace {
  submitted: EventOf<"Submitted"> | undefined
  /** Attempts that were handed out, in all lives. */
  readonly attempts: Set<number>
  highestAttempt: number
  /** When the highest attempt was learned of. */
  highestAt: number
  last: EventOf<"Seen"> | EventOf<"Unknown"> | undefined
  /** When the current life was known to have begun. */
  bornAt: number
  /** Of a webhook that told of the end. */
  notified: EventOf<"Notified"> | undefined
  hasNotified: boolean
  /** The outputs that workers delivered and the wire answered, by attempt. */
  readonly answered: Map<number, string | null>
  /** All below: of the current life. */
  starts: number
  /** Attempts whose errors were accepted and are tried again. */
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

/** Holds events, in the order in which they were observed, against the rules. Empty when all is well. */
export const check = (events: ReadonlyArray<HistoryEvent>, expectations: Expectations = {}): ReadonlyArray<Violation> => {
  const { cancelGrace = 0, ended = true, endedBy, faultless = false, interruptWithin, mayForget = false, notified = false } =
    expectations
  const violations: Array<Violation> = []
  const traces = new Map<string, Trace>()
  /** The job of each idempotency key. */
  const keys = new Map<string, string>()
  /** A worker may have delivered before the caller is told that there is a job. */
  const allowed = new Map(
    events.flatMap((event) => event._tag === "Submitted" && event.attempts !== undefined ? [[event.job, event.attempts]] : [])
  )
  const tellings = StreamReads.make()

  const traceOf = (job: string): Trace => {
    let trace = traces.get(job)
    if (trace === undefined) {
      trace = newTrace()
      traces.set(job, trace)
    }
    return trace
  }

  const broken = (rule: string, job: string, text: string) => {
    violations.push({ rule, job, text })
  }

  const reached = (trace: Trace, attempt: number, at: number) => {
    if (attempt <= trace.highestAttempt) return
    trace.highestAttempt = attempt
    trace.highestAt = at
  }

  const started = (trace: Trace, { at, attempt, job, worker }: EventOf<"Started">) => {
    if (trace.attempts.has(attempt)) broken("R2", job, `attempt ${attempt} was handed out twice, the second time to ${worker}`)
    trace.attempts.add(attempt)
    reached(trace, attempt, at)
    trace.starts += 1
    if (trace.cancelled !== undefined && at > trace.cancelled.at + cancelGrace) {
      broken("R8", job, `attempt ${attempt} started at ${at}, after the cancel was acknowledged at ${trace.cancelled.at}`)
    }
  }

  const submitted = (trace: Trace, event: EventOf<"Submitted">) => {
    trace.submitted = event
    if (event.key === undefined) return
    const known = keys.get(event.key)
    if (known !== undefined && known !== event.job) {
      broken("R3", event.job, `the key ${event.key} stands for job ${known} already`)
    }
    keys.set(event.key, event.job)
  }

  /** An error that was accepted of a job whose errors are tried again: the end of the attempt, and not yet of the job. */
  const erred = (trace: Trace, { attempt, job }: EventOf<"Delivered">, most: number) => {
    if (trace.errors.has(attempt)) broken("R2", job, `the error of attempt ${attempt} was accepted twice`)
    trace.errors.add(attempt)
    if (trace.errors.size > most) broken("R2", job, `${trace.errors.size} attempts came to nothing, where ${most} are allowed`)
  }

  const delivered = (trace: Trace, event: EventOf<"Delivered">) => {
    const { askedAt = event.at, attempt, failed = false, job, worker } = event
    const attempts = allowed.get(job)
    const retried = failed && attempts !== undefined
    if (event.verdict === "answered") {
      if (!failed) trace.answered.set(attempt, event.output)
      if (attempt < trace.highestAttempt && askedAt >= trace.highestAt && !retried) {
        broken("R2", job, `the result of attempt ${attempt} was taken when attempt ${trace.highestAttempt} had started`)
      }
    }
    if (event.verdict !== "accepted") return
    if (trace.accepted !== undefined) {
      broken("R2", job, `two results were accepted: of attempt ${trace.accepted.attempt} and of attempt ${attempt} (${worker})`)
    }
    if (attempt < trace.highestAttempt && askedAt >= trace.highestAt) {
      broken("R2", job, `the result of attempt ${attempt} was accepted when attempt ${trace.highestAttempt} had started`)
    }
    if (trace.errors.has(attempt) && !retried) broken("R2", job, `attempt ${attempt} ended with an error and then with a result`)
    if (retried) erred(trace, event, attempts)
    else trace.accepted = event
  }

  /** Looks at a status that somebody was told, beside what a webhook had told. Retried jobs end more than once. */
  const agrees = (trace: Trace, { at, job }: HistoryEvent, status: JobStatus, askedAt = at) => {
    const { notified } = trace
    if (notified === undefined || trace.bornAt !== -Infinity) return
    if (status === notified.status || (!isTerminal(status) && askedAt < notified.at)) return
    broken("R10", job, `a webhook told that it is ${notified.status}, and then it was ${status}`)
  }

  const notify = (trace: Trace, event: EventOf<"Notified">) => {
    const { accepted, job, signed, status } = event
    if (!signed) broken("R10", job, "the signature of its webhook is wrong")
    if (!isTerminal(status)) broken("R10", job, `a webhook told of its end, and it is ${status}`)
    if (trace.ended !== undefined) agrees({ ...trace, notified: event }, event, trace.ended.status)
    agrees(trace, event, status)
    trace.notified ??= event
    trace.hasNotified ||= accepted
  }

  const seen = (trace: Trace, event: EventOf<"Seen">) => {
    const { askedAt = event.at, attempt, job, output, status } = event
    // Asked before the answer to a retry: it may tell of either life.
    if (askedAt < trace.bornAt) return
    const { accepted, cancelled, ended } = trace
    const looks = `${status} with ${output}`
    if (attempt !== undefined) {
      if (attempt < trace.highestAttempt && askedAt >= trace.highestAt) {
        broken("R2", job, `its attempt shrank from ${trace.highestAttempt} to ${attempt}`)
      }
      reached(trace, attempt, event.at)
    }
    if (
      ended !== undefined && (isTerminal(status) || askedAt >= ended.at) && (ended.status !== status || ended.output !== output)
    ) {
      broken("R2", job, `it had ended ${ended.status} with ${ended.output} and was then ${looks}`)
    }
    if (accepted !== undefined && (isTerminal(status) || askedAt >= accepted.at)) {
      if ((status !== "COMPLETED" && status !== "FAILED") || output !== accepted.output) {
        broken("R2", job, `the result of attempt ${accepted.attempt} was accepted (${accepted.output}), and then it was ${looks}`)
      }
    }
    if (cancelled !== undefined && status !== "CANCELLED" && (isTerminal(status) || askedAt >= cancelled.at)) {
      broken("R8", job, `its cancel was acknowledged, and then it was ${looks}`)
    }
    agrees(trace, event, status, askedAt)
    if (status === "COMPLETED" && trace.answered.size > 0 && ![...trace.answered.values()].includes(output)) {
      broken("R2", job, `it ${looks}, which no worker delivered`)
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
        tellings.retried(event.job)
        break
      case "Interrupted":
        trace.interrupted ??= event
        break
      case "Notified":
        notify(trace, event)
        break
      case "ChunkWritten":
      case "Told":
      case "EndRead":
        tellings.record(event)
        break
      case "Seen":
        seen(trace, event)
        trace.last = event
        break
      case "Unknown":
        if (trace.submitted !== undefined && !mayForget) broken("R1", event.job, "it was acknowledged and is not there")
        trace.last = event
        break
    }
  }

  for (const [job, trace] of traces) {
    if (trace.submitted === undefined) continue
    if (trace.last === undefined) {
      broken("R1", job, "it was acknowledged and nobody looked for it afterwards")
    } else if (ended && trace.last._tag === "Seen" && !isTerminal(trace.last.status)) {
      broken("R1", job, `it was acknowledged and is still ${trace.last.status}`)
    }
    if (faultless && trace.starts !== 1) broken("R4", job, `it started ${trace.starts} times where nothing failed`)
    if (endedBy !== undefined && (trace.ended === undefined || trace.ended.at > endedBy)) {
      broken("R5", job, `it should have ended by ${endedBy} and was seen to at ${trace.ended?.at ?? "no time"}`)
    }
    const { cancelled, interrupted } = trace
    if (interruptWithin !== undefined && cancelled !== undefined && trace.starts > 0) {
      if (interrupted === undefined) broken("R8", job, "its cancel was acknowledged, and its handler was never interrupted")
      else if (interrupted.at > cancelled.at + interruptWithin) {
        broken("R8", job, `its handler was interrupted ${interrupted.at - cancelled.at} after the cancel was acknowledged`)
      }
    }
    if (notified && trace.submitted.webhook === true && !trace.hasNotified) {
      broken("R10", job, "its end was told to nobody who accepted it")
    }
  }
  for (const { job, text } of tellings.violations()) broken("R9", job, text)
  return violations
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

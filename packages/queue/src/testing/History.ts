/**
 * What happened to jobs, as seen from outside, and whether that is allowed.
 *
 * A test records what it submitted, what workers were handed and delivered, what callers were told, in the order in which it learned of
 * it. {@link check} then holds the whole against the invariants of the queue (quality.md, R1 to R8). It knows nothing of stores, clocks or
 * processes, so that one checker serves model tests, simulations and tests that kill real processes.
 */
import { isTerminal, type JobStatus } from "@stint/contract/Job"

/**
 * One observation. `at` is when the observer learned of it, by any clock that only goes forward; `askedAt`, where the answer may have
 * been on its way for a while, is when the question was asked. What it tells of was true at some time between the two.
 */
export type HistoryEvent =
  /** The submission was acknowledged. */
  | { readonly _tag: "Submitted"; readonly at: number; readonly job: string }
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
    readonly verdict: "accepted" | "ignored" | "refused"
    readonly output: string | null
  }
  /** A cancel was answered with CANCELLED. */
  | { readonly _tag: "Cancelled"; readonly at: number; readonly job: string }
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

type Of<Tag extends HistoryEvent["_tag"]> = Extract<HistoryEvent, { readonly _tag: Tag }>

/** What the checker knows of a job while it goes through the events. */
interface Trace {
  submitted: boolean
  /** Attempts that were handed out, in all lives. */
  readonly attempts: Set<number>
  highestAttempt: number
  /** When the highest attempt was learned of. */
  highestAt: number
  last: Of<"Seen"> | Of<"Unknown"> | undefined
  /** When the current life was known to have begun. */
  bornAt: number
  /** All below: of the current life. */
  starts: number
  ended: Of<"Seen"> | undefined
  accepted: Of<"Delivered"> | undefined
  cancelled: Of<"Cancelled"> | undefined
}

const newTrace = (): Trace => ({
  submitted: false,
  attempts: new Set(),
  highestAttempt: 0,
  highestAt: -Infinity,
  last: undefined,
  bornAt: -Infinity,
  starts: 0,
  ended: undefined,
  accepted: undefined,
  cancelled: undefined
})

/** Holds events, in the order in which they were observed, against the rules. Empty when all is well. */
export const check = (events: ReadonlyArray<HistoryEvent>, expectations: Expectations = {}): ReadonlyArray<Violation> => {
  const { cancelGrace = 0, ended = true, faultless = false, mayForget = false } = expectations
  const violations: Array<Violation> = []
  const traces = new Map<string, Trace>()

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

  const started = (trace: Trace, { at, attempt, job, worker }: Of<"Started">) => {
    if (trace.attempts.has(attempt)) broken("R2", job, `attempt ${attempt} was handed out twice, the second time to ${worker}`)
    trace.attempts.add(attempt)
    reached(trace, attempt, at)
    trace.starts += 1
    if (trace.cancelled !== undefined && at > trace.cancelled.at + cancelGrace) {
      broken("R8", job, `attempt ${attempt} started at ${at}, after the cancel was acknowledged at ${trace.cancelled.at}`)
    }
  }

  const delivered = (trace: Trace, event: Of<"Delivered">) => {
    if (event.verdict !== "accepted") return
    const { askedAt = event.at, attempt, job, worker } = event
    if (trace.accepted !== undefined) {
      broken("R2", job, `two results were accepted: of attempt ${trace.accepted.attempt} and of attempt ${attempt} (${worker})`)
    }
    if (attempt < trace.highestAttempt && askedAt >= trace.highestAt) {
      broken("R2", job, `the result of attempt ${attempt} was accepted when attempt ${trace.highestAttempt} had started`)
    }
    trace.accepted = event
  }

  const seen = (trace: Trace, event: Of<"Seen">) => {
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
    if (isTerminal(status)) trace.ended ??= event
  }

  for (const event of events) {
    const trace = traceOf(event.job)
    switch (event._tag) {
      case "Submitted":
        trace.submitted = true
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
        break
      case "Seen":
        seen(trace, event)
        trace.last = event
        break
      case "Unknown":
        if (trace.submitted && !mayForget) broken("R1", event.job, "it was acknowledged and is not there")
        trace.last = event
        break
    }
  }

  for (const [job, trace] of traces) {
    if (!trace.submitted) continue
    if (trace.last === undefined) {
      broken("R1", job, "it was acknowledged and nobody looked for it afterwards")
    } else if (ended && trace.last._tag === "Seen" && !isTerminal(trace.last.status)) {
      broken("R1", job, `it was acknowledged and is still ${trace.last.status}`)
    }
    if (faultless && trace.starts !== 1) broken("R4", job, `it started ${trace.starts} times where nothing failed`)
  }
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

/**
 * The timeline of a job: its waits and attempts, as bars on one time axis.
 *
 * ```
 *   wait      ====
 *   attempt 1     ========x
 *   wait                   ~~~~
 *   attempt 2                  ====
 * ```
 *
 * The platform reports the times of each attempt. If it has dropped that report, the attempt is drawn from its first to its last log line, and
 * omitted if it logged nothing.
 */
import type { Attempt } from "./Attempts.ts"

/** The parts of the last wait, as the platform explains them. */
type WaitParts = ReadonlyArray<
  { readonly phase: "queue" | "pull" | "create" | "start" | "setup" | "prepare" | "take"; readonly millis: number }
>

const PHASES: Readonly<Record<WaitParts[number]["phase"], readonly [label: string, note: string]>> = {
  queue: ["Queue", "Until the platform requested a worker"],
  pull: ["Pull image", "Until the image of the worker's container was on the machine"],
  create: ["Create worker", "Until the worker's process or container existed"],
  start: ["Start", "Until the worker's first call: the runtime, imports and fitness checks"],
  setup: ["Setup", "The worker's setup, such as loading a model"],
  prepare: ["Prepare", "Until the worker asked for a job"],
  take: ["Take", "Until the worker took the job"]
}

/** What is known about a job's times. Milliseconds since 1970. */
export interface JobTimes {
  readonly status: string
  readonly createdAt: number
  /** When it last became ready for a worker. */
  readonly queuedAt: number
  readonly startedAt?: number | undefined
  readonly finishedAt?: number | undefined
  /** What the last wait consisted of. */
  readonly waitParts?: WaitParts | undefined
  /** The number of attempts so far. */
  readonly attempts: number
  /** Whether the job is a run of a pipeline: its attempts continue each other, so the earlier ones did not fail. */
  readonly isRun?: boolean
}

/** An attempt, as far as the timeline draws it. */
type TimedAttempt = Pick<Attempt, "number" | "state" | "startedAt" | "endedAt" | "isEstimate">

/** A bar. `open`: whether it has not ended. */
export interface TimelineBar {
  readonly label: string
  readonly kind: "wait" | "cold" | "run" | "failed" | "done" | "ended"
  readonly from: number
  readonly to: number
  readonly isOpen: boolean
  /** Whether it is a part of the bar above it. */
  readonly isPart?: boolean
  readonly note?: string
}

/** What an earlier attempt is called. */
const NOTES: Readonly<Record<string, string>> = {
  failed: "The attempt failed.",
  timed_out: "The attempt timed out.",
  lost: "The worker was lost.",
  returned: "The worker returned the job."
}

const RESULT: Readonly<Record<string, TimelineBar["kind"]>> = { COMPLETED: "done", FAILED: "failed", TIMED_OUT: "failed" }

/** The parts of a wait that ended at a time. A wait with one part is already a bar. */
const partBars = (parts: WaitParts, end: number): ReadonlyArray<TimelineBar> => {
  if (parts.length < 2) return []
  let from = end - parts.reduce((sum, { millis }) => sum + millis, 0)
  return parts.map(({ millis, phase }) => {
    const [label, note] = PHASES[phase]
    const bar = {
      label,
      kind: phase === "queue" || phase === "take" ? "wait" : "cold",
      from,
      to: from + millis,
      isOpen: false,
      isPart: true,
      note
    } as const
    from += millis
    return bar
  })
}

/** The bars, ordered by their start. */
export const timelineOf = (job: JobTimes, earlier: ReadonlyArray<TimedAttempt>, now: number): ReadonlyArray<TimelineBar> => {
  const { attempts, createdAt, finishedAt, isRun = false, startedAt, status } = job
  const one = isRun ? "Activation" : "Attempt"
  const again = isRun ? "Wait" : "Backoff and wait"
  const end = finishedAt ?? Math.max(now, createdAt)
  const bars: Array<TimelineBar> = []
  // While the job waits again, `startedAt` is the start of an attempt that has ended.
  const isAgain = status === "IN_QUEUE" && attempts > 0
  const last = isAgain ? attempts : attempts - 1
  let at = createdAt
  for (const { endedAt, isEstimate, number, startedAt, state } of earlier) {
    if (number > last || startedAt === undefined) continue
    const from = Math.max(at, startedAt)
    const to = Math.max(from, endedAt ?? from)
    if (from > at) {
      bars.push({ label: number === 1 ? "Wait" : again, kind: "wait", from: at, to: from, isOpen: false })
    }
    const note = [isRun ? undefined : NOTES[state], isEstimate ? "Drawn from its first to its last log line." : undefined]
      .filter((words) => words !== undefined).join(" ")
    bars.push({
      label: `${one} ${number}`,
      kind: isRun || state === "returned" ? "ended" : "failed",
      from,
      to,
      isOpen: false,
      ...(note === "" ? {} : { note })
    })
    at = to
  }
  const isRunning = status === "IN_PROGRESS"
  const isDone = finishedAt !== undefined
  if (attempts > 0 && startedAt !== undefined && !isAgain) {
    bars.push({
      label: bars.length === 0 ? "Wait" : again,
      kind: "wait",
      from: at,
      to: Math.max(at, startedAt),
      isOpen: false
    })
    bars.push(...partBars(job.waitParts ?? [], startedAt))
    bars.push({
      label: `${one} ${attempts}`,
      kind: isRunning ? "run" : RESULT[status] ?? "ended",
      from: startedAt,
      to: Math.max(startedAt, end),
      isOpen: isRunning
    })
  } else {
    bars.push({
      label: isAgain ? again : "Wait",
      kind: isDone ? RESULT[status] ?? "ended" : "wait",
      from: at,
      to: Math.max(at, end),
      isOpen: !isDone
    })
  }
  return bars
}

/** The positions of bars on the axis, in percent. Every bar has a visible width. */
export const placeBars = (bars: ReadonlyArray<TimelineBar>): ReadonlyArray<{ readonly left: number; readonly width: number }> => {
  const from = Math.min(...bars.map((bar) => bar.from))
  const span = Math.max(1, Math.max(...bars.map((bar) => bar.to)) - from)
  return bars.map((bar) => {
    const width = Math.max(0.6, ((bar.to - bar.from) / span) * 100)
    return { left: Math.min(100 - width, ((bar.from - from) / span) * 100), width }
  })
}

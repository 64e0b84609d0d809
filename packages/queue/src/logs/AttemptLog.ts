/**
 * Writes a line into a job's log when one of its attempts ends without a result, so that the earlier attempts of a job remain known: a job's
 * record contains only the last one.
 *
 * ```
 *   attempt ends --> ends (bounded) --one fiber--> the error, from the job's record --> JobLogs
 *                        \--> full: the line is missing
 * ```
 *
 * An attempt with a result, a cancelled one, and the parts of a run between two waits have no line. Writing never delays a job.
 */
import type { AttemptOutcome, LogLevel } from "@stint/contract/JobLogLine"
import { briefError } from "@stint/store/ErrorFingerprint"
import { isParked } from "@stint/store/JobMachine"
import type { JobHead, JobReport } from "@stint/store/JobRecord"
import type { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import type { JobLogs } from "./JobLogs.ts"

/** The maximum number of ends that wait for their line. */
const MAX_ENDS = 4_096

/** The ended attempts of a queue. */
export interface AttemptLog {
  /** `before` ran, `after` does not. `by`: the worker whose own result ended the attempt. */
  readonly ended: (before: JobHead, after: JobHead, by: string | undefined) => void
}

interface End {
  readonly before: JobHead
  readonly after: JobHead
  readonly outcome: AttemptOutcome
}

/** How an attempt ended; undefined for one that has no line. */
const outcomeOf = (before: JobHead, after: JobHead, by: string | undefined): AttemptOutcome | undefined => {
  if (isParked(after)) return undefined
  // Only a job whose worker was lost is isolated: its own result ends that.
  const unsuccessful = by === before.worker && !after.isolated ? "failed" : "lost"
  switch (after.status) {
    case "TIMED_OUT":
      return "timed_out"
    case "FAILED":
      return unsuccessful
    case "IN_QUEUE":
      return after.retries === before.retries ? "returned" : unsuccessful
    default:
      return undefined
  }
}

const WORDS: Readonly<Record<AttemptOutcome, string>> = {
  failed: "failed",
  timed_out: "timed out",
  lost: "lost its worker",
  returned: "was returned to the queue"
}

const LEVELS: Readonly<Record<AttemptOutcome, LogLevel>> = { failed: "WARN", timed_out: "WARN", lost: "WARN", returned: "INFO" }

/** A duration in the unit that fits. */
const span = (millis: number): string => millis < 1_000 ? `${millis} ms` : `${Math.round(millis / 100) / 10} s`

/** The error of an attempt, if the record has no newer one. */
const errorOf = (before: JobHead, job: JobReport): string | null => {
  if (job.attempt === before.attempt) return job.error ?? job.lastError
  return job.attempt === before.attempt + 1 && job.status === "IN_PROGRESS" ? job.lastError : null
}

/** Writes the ends of attempts until the scope closes, then the last ones. */
export const make = Effect.fnUntraced(function*(
  store: JobStore["Service"],
  logs: JobLogs["Service"]
): Effect.fn.Return<AttemptLog, never, Scope.Scope> {
  const ends = yield* Queue.dropping<End>(MAX_ENDS)

  const write = Effect.fnUntraced(function*({ after, before, outcome }: End) {
    const job = outcome === "returned" ? undefined : yield* store.get(before.endpoint, before.id)
    const text = job === undefined ? null : errorOf(before, job)
    const error = text === null ? undefined : briefError(text)
    const time = after.finishedAt ?? after.queuedAt
    const startedAt = before.startedAt ?? time
    yield* logs.add(before.endpoint, before.id, {
      time,
      level: LEVELS[outcome],
      source: "platform",
      attempt: before.attempt,
      worker: before.worker,
      ...(before.release === null ? {} : { release: before.release }),
      message: `Attempt ${before.attempt} ${WORDS[outcome]} after ${span(Math.max(0, time - startedAt))}${
        error === undefined ? "." : `: ${error}`
      }`,
      ended: { outcome, startedAt, ...(error === undefined ? {} : { error }) }
    })
  })

  const writeAll = (some: ReadonlyArray<End>) => Effect.forEach(some, (end) => Effect.ignore(write(end)), { discard: true })

  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(Queue.takeAll(ends), writeAll)))
  yield* Effect.addFinalizer(() => Effect.flatMap(Queue.clear(ends), writeAll))

  return {
    ended: (before, after, by) => {
      const outcome = outcomeOf(before, after, by)
      if (outcome !== undefined) Queue.offerUnsafe(ends, { before, after, outcome })
    }
  }
})

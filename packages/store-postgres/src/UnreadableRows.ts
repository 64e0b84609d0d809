/**
 * Rows of jobs that cannot be decoded, for example because someone edited them, and jobs that the timers cannot change. Claims and timers skip such a
 * row for an hour, so that it does not block other jobs. Its error is logged once.
 */
import type { Row } from "./Connection.ts"
import { type StateRow, toStateRow } from "./JobColumns.ts"

/** How long a row is skipped. */
const QUARANTINE_MILLIS = 3_600_000

/** The unreadable rows that this process has found. */
export interface UnreadableRows {
  /** The ids that must be skipped now. */
  readonly ids: (now: number) => ReadonlyArray<string>
  /** Decodes rows that begin with their id, and skips the unreadable ones. */
  readonly readable: (rows: ReadonlyArray<Row>, now: number) => ReadonlyArray<StateRow>
  /** Skips a job that its timers cannot change. */
  readonly skip: (id: string, now: number, cause: unknown) => void
  /** The errors since the last call. Each row is reported once. */
  readonly takeErrors: () => ReadonlyArray<string>
}

export const make = (): UnreadableRows => {
  const until = new Map<string, number>()
  const reported = new Set<string>()
  let errors: Array<string> = []
  const skip = (id: string, now: number, problem: string) => {
    until.set(id, now + QUARANTINE_MILLIS)
    if (!reported.has(id)) errors.push(problem)
    reported.add(id)
  }
  const messageOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)
  return {
    ids: (now) => {
      for (const [id, time] of until) if (time <= now) until.delete(id)
      return [...until.keys()]
    },
    readable: (rows, now) =>
      rows.flatMap((row) => {
        try {
          return [toStateRow(row)]
        } catch (cause) {
          const problem = `The job store skips a row that it cannot read: ${messageOf(cause)}`
          skip(String(row[0]), now, `${problem} The job does not change until the row is repaired or deleted.`)
          return []
        }
      }),
    skip: (id, now, cause) =>
      skip(
        id,
        now,
        `The timers skip the job ${id} for an hour, because it cannot be changed: ${
          messageOf(cause)
        }. Other jobs are not affected.`
      ),
    takeErrors: () => {
      const taken = errors
      errors = []
      return taken
    }
  }
}

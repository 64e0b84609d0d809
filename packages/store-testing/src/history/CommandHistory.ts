/**
 * Records the history of a command sequence, including what each job's reader receives over connections that are cut between reads.
 */
import type { JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import {
  decodeEventCursor,
  diff,
  encodeEventCursor,
  type JobEvent,
  type JobEventCursor,
  START_CURSOR
} from "@stint/queue/JobEventCursor"
import type { JobMachineEvent } from "@stint/store/JobMachine"
import type { JobRecord, JobReport } from "@stint/store/JobRecord"
import type { ApplyResult, PeekResult } from "@stint/store/JobStore"
import * as History from "./History.ts"

/** A reader that reads a job from its beginning. */
interface Reader {
  cursor: JobEventCursor
  progress: JsonText | null
  /** The text of the reader's last cursor, which is all that the reader has after its connection is cut. */
  encodedCursor: string | undefined
}

/** Records the events that a reader received. `at` is called for each event. */
export const recordReads = (
  history: History.History,
  at: () => number,
  reader: string,
  events: ReadonlyArray<JobEvent>,
  job: JobId
): void => {
  for (const one of events) {
    if (one._tag === "Chunk") {
      const { attempt, number, output } = one
      history.record({ _tag: "ChunkRead", at: at(), job, reader, attempt, number, output })
    }
    // A job that ended while waiting no longer has the chunks of its last attempt.
    if (one._tag === "End") {
      history.record({ _tag: "EndRead", at: at(), job, reader, attempt: one.job.startedAt === null ? 0 : one.attempt })
    }
  }
}

/** A recorder without events. */
export const make = () => {
  const history = History.make()
  const readers = new Map<JobId, Reader>()
  let clock = 0
  const at = () => clock++

  const readerOf = (id: JobId): Reader => {
    const reader = readers.get(id) ?? { cursor: START_CURSOR, progress: null, encodedCursor: undefined }
    readers.set(id, reader)
    return reader
  }

  return {
    submitted: ({ id, maxAttempts, retry }: JobRecord) => {
      const attempts = retry?.onError === true ? { attempts: maxAttempts } : {}
      history.record({ _tag: "Submitted", at: at(), job: id, ...attempts })
    },

    claimed: (jobs: ReadonlyArray<JobRecord>) => {
      for (const { attempt, id, worker } of jobs) {
        history.record({ _tag: "Started", at: at(), job: id, worker: worker ?? "", attempt })
      }
    },

    applied: (event: JobMachineEvent, applied: ApplyResult, body: JsonText) => {
      if (applied._tag !== "Changed") return
      const { after, before: { attempt, id: job } } = applied
      switch (event._tag) {
        case "Finish": {
          const { error, output, worker } = event
          history.record({
            _tag: "Delivered",
            at: at(),
            job,
            worker,
            attempt,
            verdict: "accepted",
            failed: error !== null,
            output
          })
          break
        }
        case "Chunk":
          history.record({ _tag: "ChunkWritten", at: at(), job, attempt, number: after.chunks, output: body })
          break
        case "Cancel":
          history.record({ _tag: "Cancelled", at: at(), job })
          break
        case "Retry":
          history.record({ _tag: "Retried", at: at(), job })
          break
        default:
      }
    },

    seen: (id: JobId, job: JobReport | undefined) => {
      if (job === undefined) return history.record({ _tag: "Unknown", at: at(), job: id })
      const { attempt, output, status } = job
      history.record({ _tag: "Seen", at: at(), job: id, status, attempt, output })
    },

    /** The cursor of a job's reader. `cut`: whether the reader resumes over a new connection. */
    cursorOf: (id: JobId, cut: boolean): JobEventCursor => {
      const reader = readerOf(id)
      if (cut) {
        reader.cursor = reader.encodedCursor === undefined
          ? START_CURSOR
          : decodeEventCursor(reader.encodedCursor) ?? START_CURSOR
        reader.progress = null
      }
      return reader.cursor
    },

    /** Records that the reader received the result of its read. Returns true when there may be more to read. */
    read: (id: JobId, peeked: PeekResult): boolean => {
      const reader = readerOf(id)
      const { done, cursor, progress, events } = diff(reader.cursor, reader.progress, peeked)
      recordReads(history, at, "the reader", events, id)
      const last = events.at(-1)
      Object.assign(reader, {
        cursor,
        progress,
        encodedCursor: last === undefined ? reader.encodedCursor : encodeEventCursor(last.cursor)
      })
      return events.length > 0 && !done
    },

    readers: (): ReadonlyArray<JobId> => [...readers.keys()],

    violations: () => history.check({ ended: false, mayForget: true })
  }
}

/**
 * The history of a sequence of commands, and the readers that follow jobs through it: what they are told, over connections that are cut
 * between any two looks, is part of that history.
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

/** One who reads a job from its beginning. */
interface Reader {
  cursor: JobEventCursor
  progress: JsonText | null
  /** Of the last telling: all that is left when the connection is cut. */
  position: string | undefined
}

/** Records what readers are told. `at` is asked for each event. */
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
      history.record({ _tag: "Told", at: at(), job, reader, attempt, number, output })
    }
    // A job that ended while it waited has forgotten the chunks of the attempt before.
    if (one._tag === "End") {
      history.record({ _tag: "EndRead", at: at(), job, reader, attempt: one.job.startedAt === null ? 0 : one.attempt })
    }
  }
}

/** The history of one sequence. */
export const make = () => {
  const history = History.make()
  const readers = new Map<JobId, Reader>()
  let clock = 0
  const at = () => clock++

  const readerOf = (id: JobId): Reader => {
    const reader = readers.get(id) ?? { cursor: START_CURSOR, progress: null, position: undefined }
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

    /** Where the reader of a job is. `cut`: it comes back over another connection. */
    cursorOf: (id: JobId, cut: boolean): JobEventCursor => {
      const reader = readerOf(id)
      if (cut) {
        reader.cursor = reader.position === undefined ? START_CURSOR : decodeEventCursor(reader.position) ?? START_CURSOR
        reader.progress = null
      }
      return reader.cursor
    },

    /** The reader is shown what it asked for. Whether there may be more. */
    read: (id: JobId, peeked: PeekResult): boolean => {
      const reader = readerOf(id)
      const { done, cursor, progress, events } = diff(reader.cursor, reader.progress, peeked)
      recordReads(history, at, "the reader", events, id)
      const last = events.at(-1)
      Object.assign(reader, { cursor, progress, position: last === undefined ? reader.position : encodeEventCursor(last.cursor) })
      return events.length > 0 && !done
    },

    readers: (): ReadonlyArray<JobId> => [...readers.keys()],

    violations: () => history.check({ ended: false, mayForget: true })
  }
}

/**
 * The history of a sequence of commands, and the readers that follow jobs through it: what they are told, over connections that are cut
 * between any two looks, is part of that history.
 */
import type { JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import { decodePosition, type Followed, type Place, START, tell } from "../Following.ts"
import type { JobEvent } from "../JobMachine.ts"
import type { JobRecord, JobReport } from "../JobRecord.ts"
import type { Applied, Peeked } from "../JobStore.ts"
import * as History from "./History.ts"

/** One who reads a job from its beginning. */
interface Reader {
  place: Place
  progress: JsonText | null
  /** Of the last telling: all that is left when the connection is cut. */
  position: string | undefined
}

/** Records what readers are told. `at` is asked for each event. */
export const recordTold = (
  history: History.History,
  at: () => number,
  reader: string,
  told: ReadonlyArray<Followed>,
  job: JobId
): void => {
  for (const one of told) {
    if (one._tag === "Chunk") {
      const { attempt, number, output } = one
      history.record({ _tag: "Told", at: at(), job, reader, attempt, number, output })
    }
    // A job that ended while it waited has forgotten the chunks of the attempt before.
    if (one._tag === "End") {
      history.record({ _tag: "ToldEnd", at: at(), job, reader, attempt: one.job.startedAt === null ? 0 : one.attempt })
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
    const reader = readers.get(id) ?? { place: START, progress: null, position: undefined }
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

    applied: (event: JobEvent, applied: Applied, body: JsonText) => {
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
          history.record({ _tag: "Chunked", at: at(), job, attempt, number: after.chunks, output: body })
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
    placeOf: (id: JobId, cut: boolean): Place => {
      const reader = readerOf(id)
      if (cut) {
        reader.place = reader.position === undefined ? START : decodePosition(reader.position) ?? START
        reader.progress = null
      }
      return reader.place
    },

    /** The reader is shown what it asked for. Whether there may be more. */
    looked: (id: JobId, peeked: Peeked): boolean => {
      const reader = readerOf(id)
      const { done, place, progress, told } = tell(reader.place, reader.progress, peeked)
      recordTold(history, at, "the reader", told, id)
      Object.assign(reader, { place, progress, position: told.at(-1)?.position ?? reader.position })
      return told.length > 0 && !done
    },

    readers: (): ReadonlyArray<JobId> => [...readers.keys()],

    violations: () => history.check({ ended: false, mayForget: true })
  }
}

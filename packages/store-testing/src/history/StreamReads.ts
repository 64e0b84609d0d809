/**
 * Compares what the readers of a job's stream received with what its workers wrote. Each reader must receive every chunk of the attempt that ended
 * the job, exactly once and in order, over any number of connections (R9, docs/spec/figures.md#reliability). Used by {@link History.check}.
 */

/** An event of a job's stream. `reader` reads from the beginning, over any number of connections. */
export type StreamReadEvent =
  /** A worker received the acknowledgement of its chunk. */
  | {
    readonly _tag: "ChunkWritten"
    readonly at: number
    /** When the request was sent, if the response took time. */
    readonly askedAt?: number
    readonly job: string
    readonly attempt: number
    readonly number: number
    readonly output: string
  }
  /** A reader received a chunk. */
  | {
    readonly _tag: "ChunkRead"
    readonly at: number
    readonly job: string
    readonly reader: string
    readonly attempt: number
    readonly number: number
    readonly output: string
  }
  /** A reader received the job's end. `attempt` is the attempt that ended the job; 0: the job ended before its first attempt. */
  | { readonly _tag: "EndRead"; readonly at: number; readonly job: string; readonly reader: string; readonly attempt: number }

/** What a reader has received of one job so far. */
interface ReaderState {
  readonly job: string
  readonly reader: string
  attempt: number
  number: number
  /** Number of ends received since the job was last retried by a caller. */
  ends: number
  /** The attempts whose end the reader received, and how many of each attempt's chunks it had received by then. */
  readonly ended: Map<number, number>
}

/** A violation. */
interface StreamViolation {
  readonly job: string
  readonly text: string
}

/** Checks the reads of one history. */
export interface StreamReads {
  readonly record: (event: StreamReadEvent) => void
  /** The job was retried: it may end once more. */
  readonly retried: (job: string) => void
  /** Call once all events are recorded. */
  readonly violations: () => ReadonlyArray<StreamViolation>
}

const chunkKey = (job: string, attempt: number, number: number) => `${job}\n${attempt}\n${number}`

/** A checker without events. */
export const make = (): StreamReads => {
  const readers = new Map<string, ReaderState>()
  /** The stored chunks, and the number of chunks of each attempt. */
  const written = new Map<string, string>()
  const counts = new Map<string, number>()
  /** The chunks that were read. They are checked at the end, because the acknowledgement to a worker may be recorded after the read. */
  const read: Array<{ readonly job: string; readonly reader: string; readonly key: string; readonly output: string }> = []
  const violations: Array<StreamViolation> = []

  const readerOf = (job: string, reader: string): ReaderState => {
    const key = `${reader}\n${job}`
    const state = readers.get(key) ?? { job, reader, attempt: 0, number: 0, ends: 0, ended: new Map() }
    readers.set(key, state)
    return state
  }

  const record = (event: StreamReadEvent) => {
    const { attempt, job } = event
    if (event._tag === "ChunkWritten") {
      written.set(chunkKey(job, attempt, event.number), event.output)
      const attemptKey = chunkKey(job, attempt, 0)
      counts.set(attemptKey, Math.max(counts.get(attemptKey) ?? 0, event.number))
      return
    }
    const state = readerOf(job, event.reader)
    if (event._tag === "EndRead") {
      state.ends += 1
      if (state.ends > 1) violations.push({ job, text: `${event.reader} received its end twice` })
      state.ended.set(attempt, state.attempt === attempt ? state.number : 0)
      return
    }
    const expected = attempt > state.attempt ? 1 : state.number + 1
    if (attempt < state.attempt || event.number !== expected) {
      violations.push({
        job,
        text: `${event.reader} received chunk ${event.number} of attempt ${attempt} after chunk ${state.number} of attempt ` +
          `${state.attempt}: a gap, a repetition or a wrong order`
      })
    }
    state.attempt = attempt
    state.number = event.number
    read.push({ job, reader: event.reader, key: chunkKey(job, attempt, event.number), output: event.output })
  }

  return {
    record,
    retried: (job) => {
      for (const state of readers.values()) if (state.job === job) state.ends = 0
    },
    violations: () => {
      const found = [...violations]
      for (const { job, key, output, reader } of read) {
        const expected = written.get(key)
        if (expected !== undefined && expected !== output) {
          found.push({ job, text: `${reader} received a chunk ${output}, and the worker had written ${expected}` })
        }
      }
      for (const { ended, job, reader } of readers.values()) {
        for (const [attempt, number] of ended) {
          const count = counts.get(chunkKey(job, attempt, 0))
          if (count !== undefined && number < count) {
            found.push({ job, text: `${reader} received its end after ${number} of ${count} chunks of attempt ${attempt}` })
          }
        }
      }
      return found
    }
  }
}

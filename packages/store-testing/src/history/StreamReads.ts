/**
 * What readers of a job's stream were told, held against what its workers wrote
 * (R9, docs/spec/figures.md#reliability): every chunk of the attempt that ended,
 * once, in order, whatever connections they were told over. A part of {@link History.check}.
 */

/** What belongs to a job's stream. `reader` is one who reads from the beginning, over as many connections as it takes. */
export type StreamReadEvent =
  /** A worker was told that its chunk is kept. */
  | {
    readonly _tag: "ChunkWritten"
    readonly at: number
    readonly job: string
    readonly attempt: number
    readonly number: number
    readonly output: string
  }
  /** A reader was told of a chunk. */
  | {
    readonly _tag: "Told"
    readonly at: number
    readonly job: string
    readonly reader: string
    readonly attempt: number
    readonly number: number
    readonly output: string
  }
  /** A reader was told of the end, which `attempt` led to; 0 where the job ended while it waited for one. */
  | { readonly _tag: "EndRead"; readonly at: number; readonly job: string; readonly reader: string; readonly attempt: number }

/** What a reader was told of one job. */
interface ReaderState {
  readonly job: string
  readonly reader: string
  attempt: number
  number: number
  /** Ends since the job's life began. */
  ends: number
  /** The attempts that it was told had led to an end, and how many chunks it had of them. */
  readonly ended: Map<number, number>
}

/** A rule that was broken. */
interface Broken {
  readonly job: string
  readonly text: string
}

/** The readings of one history. */
export interface StreamReads {
  readonly record: (event: StreamReadEvent) => void
  /** The job begins a new life, and ends once more. */
  readonly retried: (job: string) => void
  /** When all is recorded. */
  readonly violations: () => ReadonlyArray<Broken>
}

const place = (job: string, attempt: number, number: number) => `${job}\n${attempt}\n${number}`

/** Nothing was told yet. */
export const make = (): StreamReads => {
  const readings = new Map<string, ReaderState>()
  /** What was kept, by place, and how much of each attempt. */
  const kept = new Map<string, string>()
  const counts = new Map<string, number>()
  /** What was told, by place: the workers' own words may be recorded after them. */
  const told: Array<{ readonly job: string; readonly reader: string; readonly place: string; readonly output: string }> = []
  const broken: Array<Broken> = []

  const readingOf = (job: string, reader: string): ReaderState => {
    const key = `${reader}\n${job}`
    const reading = readings.get(key) ?? { job, reader, attempt: 0, number: 0, ends: 0, ended: new Map() }
    readings.set(key, reading)
    return reading
  }

  const record = (event: StreamReadEvent) => {
    const { attempt, job } = event
    if (event._tag === "ChunkWritten") {
      kept.set(place(job, attempt, event.number), event.output)
      const attemptKey = place(job, attempt, 0)
      counts.set(attemptKey, Math.max(counts.get(attemptKey) ?? 0, event.number))
      return
    }
    const reading = readingOf(job, event.reader)
    if (event._tag === "EndRead") {
      reading.ends += 1
      if (reading.ends > 1) broken.push({ job, text: `${event.reader} was told of its end twice` })
      reading.ended.set(attempt, reading.attempt === attempt ? reading.number : 0)
      return
    }
    const expected = attempt > reading.attempt ? 1 : reading.number + 1
    if (attempt < reading.attempt || event.number !== expected) {
      broken.push({
        job,
        text:
          `${event.reader} was told of chunk ${event.number} of attempt ${attempt} after chunk ${reading.number} of attempt ` +
          `${reading.attempt}: a gap, a repetition or another order`
      })
    }
    reading.attempt = attempt
    reading.number = event.number
    told.push({ job, reader: event.reader, place: place(job, attempt, event.number), output: event.output })
  }

  return {
    record,
    retried: (job) => {
      for (const reading of readings.values()) if (reading.job === job) reading.ends = 0
    },
    violations: () => {
      const found = [...broken]
      for (const { job, output, place, reader } of told) {
        const written = kept.get(place)
        if (written !== undefined && written !== output) {
          found.push({ job, text: `${reader} was told of a chunk ${output}, and the worker had written ${written}` })
        }
      }
      for (const { ended, job, reader } of readings.values()) {
        for (const [attempt, number] of ended) {
          const count = counts.get(place(job, attempt, 0))
          if (count !== undefined && number < count) {
            found.push({ job, text: `${reader} was told of its end after ${number} of ${count} chunks of attempt ${attempt}` })
          }
        }
      }
      return found
    }
  }
}

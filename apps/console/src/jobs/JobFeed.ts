/**
 * Collects the events of a job: its status, progress, chunks and log lines.
 */
import type { JobEvent, JobLogLine, Json } from "@stint/client"

/** A chunk of the output. */
export interface Chunk {
  readonly attempt: number
  readonly number: number
  readonly output: Json
}

/** The events so far. */
export interface JobFeed {
  readonly status: string | undefined
  readonly attempt: number
  readonly progress: Json | undefined
  readonly chunks: ReadonlyArray<Chunk>
  readonly lines: ReadonlyArray<JobLogLine>
  /** The number of chunks and lines that were dropped from the lists because there were too many. */
  readonly dropped: number
  readonly hasEnded: boolean
}

/** The feed before the first event. */
export const emptyFeed: JobFeed = {
  status: undefined,
  attempt: 0,
  progress: undefined,
  chunks: [],
  lines: [],
  dropped: 0,
  hasEnded: false
}

/** The maximum number of chunks, and of lines, that the page keeps, so that a job that streams for hours does not fill the browser's memory. */
export const MAX_KEPT = 5_000

const append = <A>(
  list: ReadonlyArray<A>,
  added: ReadonlyArray<A>
): { readonly list: ReadonlyArray<A>; readonly dropped: number } => {
  const all = added.length === 0 ? list : [...list, ...added]
  const dropped = Math.max(0, all.length - MAX_KEPT)
  return { list: dropped === 0 ? all : all.slice(dropped), dropped }
}

/** Adds a batch of events. A batch takes one pass over the lists, however many events it has. */
export const addEvents = (feed: JobFeed, events: ReadonlyArray<JobEvent>): JobFeed => {
  let { attempt, hasEnded, progress, status } = feed
  const chunks: Array<Chunk> = []
  const lines: Array<JobLogLine> = []
  for (const event of events) {
    switch (event._tag) {
      case "Status":
        status = event.status
        attempt = event.attempt
        if (event.status === "IN_QUEUE") progress = undefined
        break
      case "Progress":
        progress = event.output
        break
      case "Chunk":
        chunks.push({ attempt: event.attempt, number: event.number, output: event.output })
        break
      case "Log": {
        const { _tag: _, position: __, ...line } = event
        lines.push(line)
        break
      }
      case "End":
        status = event.job.status
        hasEnded = true
        break
    }
  }
  const kept = append(feed.chunks, chunks)
  const keptLines = append(feed.lines, lines)
  return {
    status,
    attempt,
    progress,
    hasEnded,
    chunks: kept.list,
    lines: keptLines.list,
    dropped: feed.dropped + kept.dropped + keptLines.dropped
  }
}

/**
 * The streamed output as one text, if all chunks of the last attempt, or of all attempts of a pipeline's run, are text or deltas of a chat completion. Undefined for other chunks,
 * which are shown one by one.
 */
export const streamedText = (chunks: ReadonlyArray<Chunk>): string | undefined => {
  // The chunks of a new attempt start again at 1; those of a run continue.
  const own = chunks.slice(Math.max(0, chunks.findLastIndex(({ number }) => number === 1)))
  if (own.length === 0) return undefined
  const texts = own.map(({ output }) => typeof output === "string" ? output : undefined)
  return texts.every((text) => text !== undefined) ? texts.join("") : undefined
}

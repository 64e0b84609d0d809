/**
 * Following a job: what a reader has not been told yet, from what it has been told. Pure: {@link tell} compares a place with a look.
 *
 * ```
 *   Status IN_QUEUE --> Status IN_PROGRESS (attempt 1) --> Chunk 1, 2, 3 ... --> End
 *         ^                     |   Progress now and then         |
 *         +---- lost, retried --+--------------------------------+
 *         the next Status IN_PROGRESS names its attempt, and its chunks start anew at 1
 * ```
 *
 * Every telling carries a position, which says all that was told before and with it. A reader that comes back with the last position it saw
 * is told every chunk after it, none again, in order (quality.md, R9). Statuses are states, not events: one that came and went between
 * two looks is left out, except that an attempt is always announced before its first chunk and before an end that it led to. Of progress
 * only the latest value is told, and to a reader that comes back once more.
 */
import { isTerminal } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import type { JobReport } from "./JobRecord.ts"
import type { ChunkPlace, Peeked } from "./JobStore.ts"

/** One telling. `position` is opaque to readers and safe in a header. */
export type Followed =
  | {
    readonly _tag: "Status"
    readonly position: string
    readonly attempt: number
    readonly job: JobReport
    readonly status: "IN_QUEUE" | "IN_PROGRESS"
  }
  | { readonly _tag: "Progress"; readonly position: string; readonly attempt: number; readonly output: JsonText }
  | {
    readonly _tag: "Chunk"
    readonly position: string
    readonly attempt: number
    readonly number: number
    readonly output: JsonText
  }
  /** The job has ended; the last telling. */
  | { readonly _tag: "End"; readonly position: string; readonly attempt: number; readonly job: JobReport }

/** What a reader was told: the status of an attempt, and its chunks up to a number. */
export interface Place extends ChunkPlace {
  readonly phase: "start" | "queued" | "running" | "ended"
  /** When the end that it was told of was; 0 otherwise. A job that is retried ends more than once. */
  readonly endedAt: number
}

/** Nothing yet. */
export const START: Place = { attempt: 0, chunk: 0, phase: "start", endedAt: 0 }

const LETTERS = { start: "s", queued: "q", running: "r", ended: "e" } as const

const PHASES: Readonly<Record<string, Place["phase"]>> = { s: "start", q: "queued", r: "running", e: "ended" }

const encode = ({ attempt, chunk, endedAt, phase }: Place): string =>
  `${attempt}.${chunk}.${LETTERS[phase]}${phase === "ended" ? endedAt : ""}`

/** The place that a position stands for; undefined where it is none. */
export const decodePosition = (position: string): Place | undefined => {
  const [, attempt, chunk, letter = "", endedAt] = /^(\d{1,9})\.(\d{1,9})\.([sqre])(\d{0,15})$/.exec(position) ?? []
  const phase = PHASES[letter]
  return phase === undefined ? undefined : { attempt: Number(attempt), chunk: Number(chunk), phase, endedAt: Number(endedAt) }
}

/** What is new to a reader at `place`, and where it is then. `progress` is the value that it was told last. */
export const tell = (place: Place, progress: JsonText | null, { chunks, from, job, more }: Peeked): {
  readonly told: ReadonlyArray<Followed>
  readonly place: Place
  readonly progress: JsonText | null
  /** The reader knows the end. */
  readonly done: boolean
} => {
  const { attempt } = job
  const told: Array<Followed> = []
  let at = place
  const status = (phase: "queued" | "running") => {
    at = { attempt, chunk: 0, phase, endedAt: 0 }
    told.push({ _tag: "Status", position: encode(at), attempt, job, status: phase === "queued" ? "IN_QUEUE" : "IN_PROGRESS" })
  }

  const endedAt = job.finishedAt
  if (at.phase === "ended" && endedAt === at.endedAt) return { told, place, progress, done: true }
  if (job.status === "IN_QUEUE") {
    if (at.phase !== "queued" || at.attempt !== attempt) status("queued")
    return { told, place: at, progress: null, done: false }
  }
  if (job.startedAt !== null) {
    if (at.phase !== "running" || at.attempt !== attempt) status("running")
    for (const [index, output] of chunks.entries()) {
      const number = from + index
      at = { ...at, chunk: number }
      told.push({ _tag: "Chunk", position: encode(at), attempt, number, output })
    }
  }
  if (more) return { told, place: at, progress, done: false }
  if (isTerminal(job.status) && endedAt !== null) {
    at = { ...at, attempt, phase: "ended", endedAt }
    told.push({ _tag: "End", position: encode(at), attempt, job })
    return { told, place: at, progress: null, done: true }
  }
  if (job.progress !== null && job.progress !== progress) {
    told.push({ _tag: "Progress", position: encode(at), attempt, output: job.progress })
  }
  return { told, place: at, progress: job.progress, done: false }
}

/**
 * The jobs of the local API, in memory: what a platform's queue is to a deployed worker.
 *
 * ```
 *   submit --> IN_QUEUE --take--> IN_PROGRESS --done-----------> COMPLETED | FAILED
 *                 |                 ^     |  |
 *                 |      progress, chunk  |  +--policy.executionTimeout--> TIMED_OUT    } and the worker is told to stop it
 *                 +--cancel---------------+--> CANCELLED                                }
 *                 +--close----------------+--> FAILED
 * ```
 *
 * The first end counts; what comes after it changes nothing. Ended jobs stay readable until newer ones take their place: see
 * {@link MAX_FINISHED_JOBS} and {@link MAX_FINISHED_BYTES}. Nothing outlives the process.
 */
import { isTerminal } from "@stint/contract/Job"
import type { JobStatus, RunRequest } from "@stint/contract/Job"
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"

/** How many ended jobs stay readable. More only cost memory; who polls for longer than a thousand jobs has stopped looking. */
export const MAX_FINISHED_JOBS = 1_000

/** How much all results and unread chunks of ended jobs may take. Bytes. The newest job stays whatever its size. */
export const MAX_FINISHED_BYTES = 256 * 1024 * 1024

/** How many jobs may wait. A platform keeps them on disk; here they are memory. */
export const MAX_QUEUED_JOBS = 1_000

/** How much of one job's chunks may wait to be read. Bytes. */
export const MAX_UNREAD_BYTES = 256 * 1024 * 1024

/** How much of one job's chunks goes out at once. Bytes; a single chunk goes out whatever its size. */
export const PAGE_BYTES = 16 * 1024 * 1024

/** What callers ask for: the body of `/run`, and where the result is to be sent. */
export type Request = RunRequest & { readonly webhook?: string }

/** A job as it is now. Payloads are JSON text. */
export interface LocalJob {
  readonly id: string
  readonly request: Request
  readonly status: JobStatus
  /** Milliseconds since 1970. */
  readonly submittedAt: number
  readonly startedAt: number | undefined
  readonly endedAt: number | undefined
  /** The result; the latest progress while it runs. */
  readonly output: string | undefined
  readonly error: string | undefined
}

/** What {@link LocalJobQueue.drain} brings. */
export interface LocalStreamPage {
  readonly job: LocalJob
  readonly chunks: ReadonlyArray<string>
  /** There are more than fit into one answer. */
  readonly more: boolean
}

/** The jobs. Calls that wait end early when what they wait for is there; waits are in milliseconds. */
export interface LocalJobQueue {
  /** Puts a job in the queue. Undefined: the queue is full. */
  readonly submit: (request: Request) => LocalJob | undefined
  readonly find: (id: string) => LocalJob | undefined
  /** Waits for the end of a job, and answers what it is then. Undefined: there is none of that id. */
  readonly awaitCompletion: (id: string, wait: number) => Effect.Effect<LocalJob | undefined>
  /** The chunks that nobody has read; waits for the first, or for the job's end. Undefined: there is none of that id. */
  readonly readStream: (id: string, wait: number) => Effect.Effect<LocalStreamPage | undefined>
  /** Ends a job that has not ended. Undefined: there is none of that id. */
  readonly cancel: (id: string) => LocalJob | undefined
  /** Ends all jobs that wait as FAILED, or all that have not ended. The answer says how many those were. */
  readonly close: (which: "waiting" | "all", error: string) => number
  /** How many jobs there are by status, those that are forgotten excluded. */
  readonly counts: () => { readonly [status in JobStatus]: number }

  /** The worker's side: up to `count` jobs; waits for the first. */
  readonly take: (count: number) => Effect.Effect<ReadonlyArray<ReceivedJob>>
  /** The worker's side: ids of running jobs that were ended from here; waits for the first. */
  readonly stops: Effect.Effect<ReadonlyArray<string>>
  /** The worker's side: a value for those who look while the job runs. Ignored after its end. */
  readonly progress: (id: string, output: unknown) => void
  /** The worker's side: one chunk, as the protocol's body. */
  readonly chunk: (id: string, body: string) => "kept" | "ended" | "full"
  /** The worker's side: the result, as the protocol's body. The answer says whether it asked for a fresh worker. */
  readonly done: (id: string, body: string) => { readonly stopPod: boolean }
}

interface Entry extends LocalJob {
  status: JobStatus
  startedAt: number | undefined
  endedAt: number | undefined
  output: string | undefined
  error: string | undefined
  /** Chunks that nobody has read, and their bytes. */
  readonly chunks: Array<string>
  unread: number
  readonly watchers: Set<() => void>
}

/**
 * Waits until the check holds; whoever changes what it looks at wakes the watchers. Looking and beginning to wait is one step:
 * between two steps what is waited for could pass unseen.
 */
const awaitUntil = (watchers: Set<() => void>, check: () => boolean): Effect.Effect<void> =>
  Effect.callback((resume) => {
    if (check()) return resume(Effect.void)
    const watcher = () => {
      if (!check()) return
      watchers.delete(watcher)
      resume(Effect.void)
    }
    watchers.add(watcher)
    return Effect.sync(() => void watchers.delete(watcher))
  })

const wake = (watchers: Set<() => void>): void => {
  for (const watcher of [...watchers]) watcher()
}

const textOf = (value: unknown): string | undefined => value === undefined ? undefined : JSON.stringify(value)

/** A body of the worker's. It came out of the runtime as JSON of an object; anything else is a fault of ours. */
const readBody = (body: string): { readonly [key: string]: unknown } => {
  const value: unknown = JSON.parse(body)
  if (!Predicate.isObject(value)) throw new TypeError(`The worker sent ${body.slice(0, 100)}, which is no object.`)
  return value
}

const errorText = (error: unknown): string | undefined =>
  error === undefined ? undefined : typeof error === "string" ? error : JSON.stringify(error)

/** The members of the job object (docs/spec/jobs-api.md#job-object), as JSON text without braces. */
export const jobJsonMembers = (job: LocalJob, workerId: string): string => {
  const parts = [`"id":${JSON.stringify(job.id)}`, `"status":"${job.status}"`]
  if (job.startedAt !== undefined) {
    parts.push(`"delayTime":${job.startedAt - job.submittedAt}`)
    if (job.endedAt !== undefined) parts.push(`"executionTime":${job.endedAt - job.startedAt}`)
  }
  if (job.output !== undefined) parts.push(`"output":${job.output}`)
  if (job.error !== undefined) parts.push(`"error":${JSON.stringify(job.error)}`)
  if (job.startedAt !== undefined) parts.push(`"workerId":${JSON.stringify(workerId)}`)
  return parts.join(",")
}

/** An empty table. `ended` is called at the end of each job, however it ended. Timers of jobs end with the scope. */
export const make = (ended: (job: LocalJob) => void): Effect.Effect<LocalJobQueue, never, Scope.Scope> =>
  Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const scope = yield* Effect.scope

    const entries = new Map<string, Entry>()
    /** Ids of jobs that wait, first come first. */
    const waiting = new Set<string>()
    /** Ended jobs and their bytes, in the order of their ends. */
    const kept = new Map<string, number>()
    let keptBytes = 0
    let stopping: Array<string> = []
    const takers = new Set<() => void>()
    const stoppers = new Set<() => void>()

    const forget = (id: string) => {
      keptBytes -= kept.get(id) ?? 0
      kept.delete(id)
      entries.delete(id)
    }

    const keep = (entry: Entry) => {
      const bytes = Buffer.byteLength(entry.output ?? "") + Buffer.byteLength(entry.error ?? "") + entry.unread
      kept.set(entry.id, bytes)
      keptBytes += bytes
      for (const oldest of kept.keys()) {
        if (oldest === entry.id || (kept.size <= MAX_FINISHED_JOBS && keptBytes <= MAX_FINISHED_BYTES)) break
        forget(oldest)
      }
    }

    const end = (
      entry: Entry,
      status: JobStatus,
      result: { readonly output?: string | undefined; readonly error?: string | undefined } = {}
    ): void => {
      if (isTerminal(entry.status)) return
      const wasRunning = !waiting.delete(entry.id)
      entry.status = status
      entry.endedAt = clock.currentTimeMillisUnsafe()
      entry.output = result.output
      entry.error = result.error
      if (wasRunning && status !== "COMPLETED" && status !== "FAILED") {
        stopping.push(entry.id)
        wake(stoppers)
      }
      keep(entry)
      wake(entry.watchers)
      ended(entry)
    }

    const expire = (entry: Entry, limit: number) =>
      Effect.map(
        Effect.timeoutOption(awaitUntil(entry.watchers, () => isTerminal(entry.status)), limit),
        Option.match({
          onSome: () => {},
          onNone: () =>
            end(entry, "TIMED_OUT", { error: `The attempt ran longer than its execution timeout (${limit / 1000} s).` })
        })
      )

    const takeNow = Effect.fnUntraced(function*(count: number) {
      const jobs: Array<ReceivedJob> = []
      for (const id of [...waiting].slice(0, count)) {
        waiting.delete(id)
        const entry = entries.get(id)
        if (entry === undefined) continue
        const { input, policy, s3Config } = entry.request
        entry.startedAt = clock.currentTimeMillisUnsafe()
        entry.status = "IN_PROGRESS"
        wake(entry.watchers)
        jobs.push({
          id,
          input,
          delayTime: entry.startedAt - entry.submittedAt,
          attempt: 1,
          ...(s3Config === undefined ? {} : { s3Config })
        })
        const limit = policy?.executionTimeout
        if (limit !== undefined) yield* Effect.forkIn(expire(entry, limit), scope)
      }
      return jobs
    })

    const readPage = (entry: Entry): LocalStreamPage => {
      let read = 0
      let count = 0
      for (const chunk of entry.chunks) {
        const bytes = Buffer.byteLength(chunk)
        if (count > 0 && read + bytes > PAGE_BYTES) break
        read += bytes
        count++
      }
      const chunks = entry.chunks.splice(0, count)
      entry.unread -= read
      const bytes = kept.get(entry.id)
      if (bytes !== undefined) {
        kept.set(entry.id, bytes - read)
        keptBytes -= read
      }
      return { job: entry, chunks, more: entry.chunks.length > 0 }
    }

    return {
      submit: (request) => {
        if (waiting.size >= MAX_QUEUED_JOBS) return undefined
        const entry: Entry = {
          id: `test-${crypto.randomUUID()}`,
          request,
          status: "IN_QUEUE",
          submittedAt: clock.currentTimeMillisUnsafe(),
          startedAt: undefined,
          endedAt: undefined,
          output: undefined,
          error: undefined,
          chunks: [],
          unread: 0,
          watchers: new Set()
        }
        entries.set(entry.id, entry)
        waiting.add(entry.id)
        wake(takers)
        return entry
      },
      find: (id) => entries.get(id),
      awaitCompletion: (id, wait) =>
        Effect.suspend(() => {
          const entry = entries.get(id)
          if (entry === undefined) return Effect.undefined
          return Effect.as(Effect.timeoutOption(awaitUntil(entry.watchers, () => isTerminal(entry.status)), wait), entry)
        }),
      readStream: (id, wait) =>
        Effect.suspend(() => {
          const entry = entries.get(id)
          if (entry === undefined) return Effect.undefined
          const ready = awaitUntil(entry.watchers, () => entry.chunks.length > 0 || isTerminal(entry.status))
          return Effect.map(Effect.timeoutOption(ready, wait), () => readPage(entry))
        }),
      cancel: (id) => {
        const entry = entries.get(id)
        if (entry !== undefined) end(entry, "CANCELLED")
        return entry
      },
      close: (which, error) => {
        const open = [...entries.values()].filter(({ id, status }) => which === "all" ? !isTerminal(status) : waiting.has(id))
        for (const entry of open) end(entry, "FAILED", { error })
        return open.length
      },
      counts: () => {
        const counts = { IN_QUEUE: 0, IN_PROGRESS: 0, COMPLETED: 0, FAILED: 0, CANCELLED: 0, TIMED_OUT: 0 }
        for (const { status } of entries.values()) counts[status]++
        return counts
      },
      take: (count) => Effect.andThen(awaitUntil(takers, () => waiting.size > 0), takeNow(count)),
      stops: Effect.map(awaitUntil(stoppers, () => stopping.length > 0), () => {
        const ids = stopping
        stopping = []
        return ids
      }),
      progress: (id, output) => {
        const entry = entries.get(id)
        if (entry?.status === "IN_PROGRESS") entry.output = textOf(output)
      },
      chunk: (id, body) => {
        const entry = entries.get(id)
        if (entry?.status !== "IN_PROGRESS") return "ended"
        const text = textOf(readBody(body)["output"]) ?? "null"
        const bytes = Buffer.byteLength(text)
        if (entry.unread + bytes > MAX_UNREAD_BYTES) return "full"
        entry.chunks.push(text)
        entry.unread += bytes
        wake(entry.watchers)
        return "kept"
      },
      done: (id, body) => {
        const { error, output, stopPod } = readBody(body)
        const entry = entries.get(id)
        if (entry !== undefined) {
          end(entry, error === undefined ? "COMPLETED" : "FAILED", { output: textOf(output), error: errorText(error) })
        }
        return { stopPod: stopPod === true }
      }
    }
  })

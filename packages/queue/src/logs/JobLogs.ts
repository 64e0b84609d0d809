/**
 * The log lines of jobs: from the workers that print them to those who read them.
 *
 * ```
 *   a worker's line --> whose is it? --> pending --100 ms, or 256 lines--> JobLogStore --> followers are woken
 *                         |                 |
 *                         |                 +-- the worker that fills it waits until it is written
 *                         +-- of no job of this worker's: left to the platform's own log
 * ```
 *
 * - A line that names its job is that job's, where this worker was handed it; a worker cannot write into another one's. A line that names
 *   none is the job's that the worker holds, where that is exactly one. What was printed in a job's last moment may be read after its result
 *   arrived: for a second after its end a worker that holds nothing is taken to speak of it.
 * - Lines are written some at a time, so that a chatty handler costs the others next to nothing. A platform that is killed loses the last
 *   100 ms of them at the most.
 * - What cannot be kept is counted and told as missing. A log never holds up a job.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { JobId } from "@stint/contract/Ids"
import { isLevelEnabled, type LogLevel, type LogSource } from "@stint/contract/JobLogLine"
import { truncateMessage } from "@stint/contract/LogMessage"
import { JobLogStore, type LogBatch, type LogEntry, LogLimits, type LogLine } from "@stint/store/JobLogStore"
import { JobStore } from "@stint/store/JobStore"
import type { QueueError } from "@stint/store/QueueError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as WaitList from "../events/WaitList.ts"
import { WorkerRegistry } from "../workers/WorkerRegistry.ts"
import { fillGaps } from "./LogGaps.ts"

/** A line as a worker wrote it. */
export interface WorkerLogLine {
  readonly endpoint: EndpointId
  readonly worker: string
  /** The job that it names, if any. */
  readonly job: string | undefined
  readonly level: LogLevel
  readonly source: LogSource
  readonly message: string
}

/** Which lines to read. */
export interface ReadOptions {
  /** Lines after this number. Default: from the first on. */
  readonly after?: number | undefined
  /** The least level that is shown. Default: all. */
  readonly level?: LogLevel | undefined
  /** Default: 200. */
  readonly limit?: number | undefined
}

/** Some of a job's lines, with a line of its own for each gap between them. */
export interface ReadPage {
  readonly lines: ReadonlyArray<LogLine>
  /** Number of the last line that was looked at. */
  readonly cursor: number
  readonly more: boolean
}

/** How long a line waits for others. Milliseconds. Longer means fewer writes, and more that a killed platform loses. */
export const BATCH_MILLIS = 100

/** So many lines are written without further waiting. */
export const BATCH_LINES = 256

/** How long after a job's end its worker, holding nothing, is taken to speak of it. Milliseconds. */
const TRAILING_OUTPUT_MILLIS = 1_000

/** How long the end of a job is held back from a follower, at the most, while its worker's pipes still give lines. Milliseconds. */
export const TRAILING_LINES_TIMEOUT_MILLIS = 500

/** How many jobs' missing lines are remembered until they can be told. */
const TRACKED_DROPS_LIMIT = 1_000

/** How many workers are remembered as having said something. */
const TRACKED_WORKERS_LIMIT = 10_000

/** Turns of the event loop in which what is in a pipe by now is read. */
const TURNS = 3

/** What one read looks at. */
const READ_LIMIT = 200
const SCAN_LIMIT = 1_000

/** One turn of the event loop: whatever is ready to be read is read in it. */
const eventLoopTurn: Effect.Effect<void> = Effect.callback((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})

const isJobId = Schema.is(JobId)

const workerKey = (endpoint: string, worker: string) => `${endpoint}\n${worker}`

export class JobLogs extends Context.Service<JobLogs, {
  /**
   * Keeps a line with its job. False: it belongs to none of this worker's. Returns at once, but for the worker that fills a batch, which
   * waits until that is written.
   */
  readonly write: (line: WorkerLogLine) => Effect.Effect<boolean>
  /** Writes what is pending. */
  readonly flush: Effect.Effect<void>
  /** Some of a job's lines. */
  readonly read: (endpoint: EndpointId, job: JobId, options?: ReadOptions) => Effect.Effect<ReadPage, QueueError>
  /**
   * Returns when what a worker wrote before its job ended is kept: when a few turns of the event loop brought nothing new of it, or after
   * {@link TRAILING_LINES_TIMEOUT_MILLIS}. Its lines and its result come on different ways.
   */
  readonly awaitTrailingLines: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  /** By job: those who follow it. They are woken when lines were kept. */
  readonly followers: WaitList.WaitList
}>()("@stint/queue/JobLogs") {}

const make = Effect.gen(function*() {
  const store = yield* JobLogStore
  const jobs = yield* JobStore
  const registry = yield* WorkerRegistry
  const quotas = yield* LogLimits
  const clock = yield* Clock.Clock
  const scope = yield* Effect.scope
  const writing = yield* Semaphore.make(1)
  const followers = WaitList.make()

  let pending = new Map<JobId, { readonly endpoint: EndpointId; readonly lines: Array<LogEntry> }>()
  let amount = 0
  let scheduled = false
  /** Is told once, until it is over. */
  let failing = false
  const missed = new Map<JobId, { readonly endpoint: EndpointId; readonly lines: number }>()
  /** How many lines each worker has written. */
  const linesWritten = new Map<string, number>()

  const miss = ({ endpoint, job, lines, missed: before }: LogBatch) => {
    if (missed.size >= TRACKED_DROPS_LIMIT && !missed.has(job)) return
    missed.set(job, { endpoint, lines: (missed.get(job)?.lines ?? 0) + before + lines.length })
  }

  const writePending = Effect.gen(function*() {
    if (amount === 0) return
    const taken = pending
    pending = new Map()
    amount = 0
    const batches: Array<LogBatch> = []
    for (const [job, { endpoint, lines }] of taken) batches.push({ endpoint, job, lines, missed: missed.get(job)?.lines ?? 0 })
    for (const [job, { endpoint, lines }] of missed) {
      if (!taken.has(job)) batches.push({ endpoint, job, lines: [], missed: lines })
    }
    missed.clear()
    yield* store.append(batches).pipe(
      Effect.match({
        onSuccess: () => {
          failing = false
          for (const job of taken.keys()) followers.wake(job)
          return undefined
        },
        onFailure: (error) => {
          for (const batch of batches) miss(batch)
          return error
        }
      }),
      Effect.flatMap((error) => {
        if (error === undefined || failing) return Effect.void
        failing = true
        return Effect.logWarning(`Log lines of jobs are dropped, because they cannot be kept: ${error.message}. The jobs go on.`)
      })
    )
  })

  const flush = Effect.uninterruptible(writing.withPermit(writePending))

  const flushSoon = Effect.andThen(
    Effect.sleep(BATCH_MILLIS),
    Effect.suspend(() => {
      scheduled = false
      return flush
    })
  )

  /** Whose a line is: the job and the attempt. */
  const ownerOf = Effect.fnUntraced(function*({ endpoint, job, worker }: WorkerLogLine) {
    if (job === undefined) return registry.soleJob(endpoint, worker, TRAILING_OUTPUT_MILLIS)
    const attempt = registry.attemptOf(endpoint, worker, job)
    if (attempt !== undefined) return { job, attempt }
    // It was handed the job before this platform started.
    if (!isJobId(job)) return undefined
    const known = yield* Effect.orElseSucceed(jobs.get(endpoint, job), () => undefined)
    return known?.worker === worker ? { job, attempt: known.attempt } : undefined
  })

  const write = Effect.fnUntraced(function*(line: WorkerLogLine) {
    const { endpoint, level, message, source, worker } = line
    const key = workerKey(endpoint, worker)
    linesWritten.set(key, (linesWritten.get(key) ?? 0) + 1)
    if (linesWritten.size > TRACKED_WORKERS_LIMIT) {
      const [oldest] = linesWritten.keys()
      if (oldest !== undefined) linesWritten.delete(oldest)
    }
    const owner = yield* ownerOf(line)
    if (owner === undefined || !isJobId(owner.job)) return false
    const entry = {
      time: clock.currentTimeMillisUnsafe(),
      level,
      source,
      attempt: owner.attempt,
      worker,
      message: truncateMessage(message)
    }
    const waiting = pending.get(owner.job)
    if (waiting === undefined) pending.set(owner.job, { endpoint, lines: [entry] })
    else waiting.lines.push(entry)
    amount += 1
    if (amount >= BATCH_LINES) yield* flush
    else if (!scheduled) {
      scheduled = true
      yield* Effect.forkIn(flushSoon, scope)
    }
    return true
  })

  const read = Effect.fnUntraced(function*(
    endpoint: EndpointId,
    job: JobId,
    { after = 0, level = "TRACE", limit = READ_LIMIT }: ReadOptions = {}
  ) {
    const lines: Array<LogLine> = []
    let cursor = after
    // Where only few lines are of the level, so many are looked at that a page is not empty for long, and no more.
    for (let scanned = 0; scanned < SCAN_LIMIT;) {
      const page = yield* store.read(endpoint, job, cursor, Math.min(SCAN_LIMIT, limit))
      const filled = fillGaps(page, cursor, { now: clock.currentTimeMillisUnsafe(), quotas })
      for (const line of filled) {
        cursor = line.number
        if (isLevelEnabled(line.level, level)) lines.push(line)
        if (lines.length === limit) return { lines, cursor, more: cursor < page.last }
      }
      scanned += Math.max(1, filled.length)
      if (!page.more) return { lines, cursor, more: false }
    }
    return { lines, cursor, more: true }
  })

  const awaitTrailingLines = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    const key = workerKey(endpoint, worker)
    const until = clock.currentTimeMillisUnsafe() + TRAILING_LINES_TIMEOUT_MILLIS
    while (true) {
      const before = linesWritten.get(key)
      for (let n = 0; n < TURNS; n++) yield* eventLoopTurn
      yield* flush
      if (linesWritten.get(key) === before || clock.currentTimeMillisUnsafe() >= until) return
    }
  })

  yield* Effect.addFinalizer(() => flush)

  return JobLogs.of({ write, flush, read, awaitTrailingLines, followers })
})

/** The logs over whatever stores are given. What is pending when the scope closes is written first. */
export const layer: Layer.Layer<JobLogs, never, JobLogStore | JobStore | WorkerRegistry> = Layer.effect(JobLogs, make)

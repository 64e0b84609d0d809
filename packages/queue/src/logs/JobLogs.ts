/**
 * Passes log lines of jobs from the workers that print them to the readers that follow them.
 *
 * ```
 *   a worker's line --> which job? --> pending --100 ms, or 256 lines--> JobLogStore --> followers are woken
 *                         |               |
 *                         |               +-- the worker whose line fills the batch waits for its write
 *                         +-- no job of this worker: the caller writes the line to the platform's own log
 * ```
 *
 * - A line that names a job is attributed to that job only if this worker took the job, so a worker cannot write to the log of another
 *   worker's job. A line that names no job is attributed to the worker's current job if the worker runs exactly one job. Output may be read
 *   after the job's result has arrived, so a line that arrives up to a second after the job's end is still attributed to that job, provided
 *   that the worker is running no other job.
 * - Lines are written in batches, so that verbose handlers do not slow down other jobs. If the platform is killed, at most the lines of the
 *   last 100 ms are lost.
 * - Lines that cannot be stored are counted, and readers receive the count. Logging never delays a job.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { JobId } from "@stint/contract/Ids"
import { isLevelEnabled, type LogLevel, type LogSource } from "@stint/contract/JobLogLine"
import { truncateMessage } from "@stint/contract/LogMessage"
import { isWithin } from "@stint/contract/NodeAddress"
import { JobLogStore, type LogBatch, type LogEntry, LogLimits, type LogLine } from "@stint/store/JobLogStore"
import { JobStore } from "@stint/store/JobStore"
import { Nodes } from "@stint/store/Nodes"
import * as OutageLog from "@stint/store/OutageLog"
import type { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { monotonicMillis } from "../ClockWatch.ts"
import { FOLLOWERS, workerKey } from "../events/JobNotifier.ts"
import * as WaitList from "../events/WaitList.ts"
import { WorkerRegistry } from "../workers/WorkerRegistry.ts"
import { fillGaps } from "./LogGaps.ts"
import * as LogSearch from "./LogSearch.ts"

export type { FoundLine, LogCursor } from "./LogSearch.ts"

/** A line from a worker. */
export interface WorkerLogLine {
  readonly endpoint: EndpointId
  readonly worker: string
  /** The job that the line names, if any. */
  readonly job: string | undefined
  readonly level: LogLevel
  readonly source: LogSource
  readonly message: string
  /** The path of the pipeline's step that wrote the line, if any. */
  readonly step?: string | undefined
}

/** Selects log lines. */
export interface ReadOptions {
  /** Returns only lines after this number. Default: 0, which returns all lines. */
  readonly after?: number | undefined
  /** The lowest level to include. Default: all. */
  readonly level?: LogLevel | undefined
  /** Returns only lines whose message contains this text, in upper or lower case. Default: all. */
  readonly contains?: string | undefined
  /** Returns only lines of this step or node of a pipeline. Default: all. */
  readonly step?: string | undefined
  /** Default: 200. */
  readonly limit?: number | undefined
}

/** A page of a job's lines. Each gap in the numbers becomes a line that counts the dropped lines. */
export interface ReadPage {
  readonly lines: ReadonlyArray<LogLine>
  /** Number of the last line that was read, including lines that do not match. */
  readonly cursor: number
  readonly more: boolean
}

/**
 * How long a line waits for further lines before the batch is written, in milliseconds. A longer wait means fewer writes, but more lost
 * lines when the platform is killed.
 */
export const BATCH_MILLIS = 100

/** The number of pending lines at which a batch is written without further waiting. */
export const BATCH_LINES = 256

/** How long after a job's end the output of its idle worker is still attributed to the job, in milliseconds. */
const TRAILING_OUTPUT_MILLIS = 1_000

/** How long a follower waits for the job's last lines before it receives the end event, in milliseconds. */
export const TRAILING_LINES_TIMEOUT_MILLIS = 500

/** The maximum number of jobs whose dropped lines are counted until the count can be stored. */
const TRACKED_DROPS_LIMIT = 1_000

/** The maximum number of workers whose lines are counted. */
const TRACKED_WORKERS_LIMIT = 10_000

/** The number of event loop turns after which all available data in a pipe has been read. */
const INPUT_TURNS = 3

/** The default page size, and the maximum number of lines that one `read` scans. */
const READ_LIMIT = 200
const SCAN_LIMIT = 1_000

/** Waits for one turn of the event loop, during which available input is read. */
const eventLoopTurn: Effect.Effect<void> = Effect.callback((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})

const isJobId = Schema.is(JobId)

export class JobLogs extends Context.Service<JobLogs, {
  /**
   * Adds a line to its job. Returns false when the line cannot be attributed to a job of this worker. Returns at once, except when the line
   * fills a batch: the call then waits until the batch is written.
   */
  readonly write: (line: WorkerLogLine) => Effect.Effect<boolean>
  /** Adds a line of the platform to a job. */
  readonly add: (endpoint: EndpointId, job: JobId, line: LogEntry) => Effect.Effect<void>
  /** Writes the pending lines. */
  readonly flush: Effect.Effect<void>
  /** A page of a job's lines. */
  readonly read: (endpoint: EndpointId, job: JobId, options?: ReadOptions) => Effect.Effect<ReadPage, StoreError>
  /** A page of the lines of an endpoint's jobs, newest first. */
  readonly search: (
    endpoint: EndpointId,
    options?: LogSearch.LogSearchOptions
  ) => Effect.Effect<LogSearch.FoundLines, StoreError>
  /**
   * Returns once the lines that a worker wrote before its job ended are stored, which is when a few turns of the event loop yield no new
   * line, or after {@link TRAILING_LINES_TIMEOUT_MILLIS}. Lines and results arrive over different connections.
   */
  readonly awaitTrailingLines: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  /** Key: job id. The followers that are woken when lines are stored. */
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
  const nodes = Option.getOrUndefined(yield* Effect.serviceOption(Nodes))
  const followers = WaitList.shared(WaitList.make(), FOLLOWERS, nodes)

  let pending = new Map<JobId, { readonly endpoint: EndpointId; readonly lines: Array<LogEntry> }>()
  let pendingLines = 0
  let scheduled = false
  const outage = OutageLog.make({
    onFailure: (problem) =>
      Effect.logWarning(`Log lines of jobs are dropped because they cannot be stored: ${problem}. The jobs continue.`)
  })
  const dropped = new Map<JobId, { readonly endpoint: EndpointId; readonly lines: number }>()
  /** Key: {@link workerKey}. */
  const linesWritten = new Map<string, number>()

  const countDropped = ({ endpoint, job, lines, missed }: LogBatch) => {
    if (dropped.size >= TRACKED_DROPS_LIMIT && !dropped.has(job)) return
    dropped.set(job, { endpoint, lines: (dropped.get(job)?.lines ?? 0) + missed + lines.length })
  }

  const writePending = Effect.gen(function*() {
    if (pendingLines === 0) return
    const taken = pending
    pending = new Map()
    pendingLines = 0
    const batches: Array<LogBatch> = []
    for (const [job, { endpoint, lines }] of taken) batches.push({ endpoint, job, lines, missed: dropped.get(job)?.lines ?? 0 })
    for (const [job, { endpoint, lines }] of dropped) {
      if (!taken.has(job)) batches.push({ endpoint, job, lines: [], missed: lines })
    }
    dropped.clear()
    yield* store.append(batches).pipe(
      Effect.matchEffect({
        onSuccess: () => {
          for (const job of taken.keys()) followers.wake(job)
          return outage.succeeded
        },
        onFailure: (error) => {
          for (const batch of batches) countDropped(batch)
          return outage.failed(error.message)
        }
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

  /** The job and attempt that a line belongs to. */
  const ownerOf = Effect.fnUntraced(function*({ endpoint, job, worker }: WorkerLogLine) {
    if (job === undefined) return registry.soleJob(endpoint, worker, TRAILING_OUTPUT_MILLIS)
    const attempt = registry.attemptOf(endpoint, worker, job)
    if (attempt !== undefined) return { job, attempt }
    // The worker may have taken the job before this platform process started.
    if (!isJobId(job)) return undefined
    const known = yield* Effect.orElseSucceed(jobs.get(endpoint, job), () => undefined)
    return known?.worker === worker ? { job, attempt: known.attempt } : undefined
  })

  const add = Effect.fnUntraced(function*(endpoint: EndpointId, job: JobId, entry: LogEntry) {
    const unwritten = pending.get(job)
    if (unwritten === undefined) pending.set(job, { endpoint, lines: [entry] })
    else unwritten.lines.push(entry)
    pendingLines += 1
    if (pendingLines >= BATCH_LINES) yield* flush
    else if (!scheduled) {
      scheduled = true
      yield* Effect.forkIn(flushSoon, scope)
    }
  })

  const write = Effect.fnUntraced(function*(line: WorkerLogLine) {
    const { endpoint, level, message, source, step, worker } = line
    const key = workerKey(endpoint, worker)
    linesWritten.set(key, (linesWritten.get(key) ?? 0) + 1)
    if (linesWritten.size > TRACKED_WORKERS_LIMIT) {
      const [oldest] = linesWritten.keys()
      if (oldest !== undefined) linesWritten.delete(oldest)
    }
    const owner = yield* ownerOf(line)
    if (owner === undefined || !isJobId(owner.job)) return false
    const release = registry.releaseOf(endpoint, worker)
    yield* add(endpoint, owner.job, {
      time: clock.currentTimeMillisUnsafe(),
      level,
      source,
      attempt: owner.attempt,
      worker,
      ...(release === undefined ? {} : { release }),
      message: truncateMessage(message),
      ...(step === undefined ? {} : { step })
    })
    return true
  })

  const read = Effect.fnUntraced(function*(
    endpoint: EndpointId,
    job: JobId,
    { after = 0, contains = "", level = "TRACE", limit = READ_LIMIT, step }: ReadOptions = {}
  ) {
    const wanted = contains.toLowerCase()
    const lines: Array<LogLine> = []
    let cursor = after
    const isWanted = (line: LogLine) =>
      (wanted === "" || line.message.toLowerCase().includes(wanted)) && isLevelEnabled(line.level, level) &&
      (step === undefined || (line.step !== undefined && isWithin(line.step, step)))
    // When few lines match, scans several pages, up to SCAN_LIMIT lines, so that pages are rarely empty.
    for (let scanned = 0; scanned < SCAN_LIMIT;) {
      const page = yield* store.read(endpoint, job, cursor, Math.min(SCAN_LIMIT, limit))
      const filled = fillGaps(page, cursor, { now: clock.currentTimeMillisUnsafe(), quotas })
      for (const line of filled) {
        cursor = line.number
        if (isWanted(line)) lines.push(line)
        if (lines.length === limit) return { lines, cursor, more: cursor < page.last }
      }
      scanned += Math.max(1, filled.length)
      if (!page.more) return { lines, cursor, more: false }
    }
    return { lines, cursor, more: true }
  })

  const awaitTrailingLines = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    const key = workerKey(endpoint, worker)
    const until = monotonicMillis(clock) + TRAILING_LINES_TIMEOUT_MILLIS
    while (true) {
      const before = linesWritten.get(key)
      for (let n = 0; n < INPUT_TURNS; n++) yield* eventLoopTurn
      yield* flush
      if (linesWritten.get(key) === before || monotonicMillis(clock) >= until) return
    }
  })

  yield* Effect.addFinalizer(() => flush)

  return JobLogs.of({ write, add, flush, read, search: LogSearch.make(store, clock), awaitTrailingLines, followers })
})

/** Job logs, using the provided stores. Pending lines are written when the scope closes. */
export const layer: Layer.Layer<JobLogs, never, JobLogStore | JobStore | WorkerRegistry> = Layer.effect(JobLogs, make)

/**
 * The timings of one job for its report.
 *
 * ```
 *   open(name, parent) --> entry --end--> ended
 *                            \--the job ends first--> unfinished; it ends with the job
 * ```
 *
 * Times are monotonic and rounded down to whole microseconds.
 */
import * as Context from "effect/Context"

/** The maximum number of timings in a report. Further timings are only counted, so that a timer in a loop does not fill the output. */
export const MAX_TIMINGS = 1_000

/** One timing in a report. Times are milliseconds with three decimals, from the job's start. */
export interface Timestamp {
  readonly name: string
  readonly start: number
  readonly end: number
  readonly duration_ms: number
  /** The index of the enclosing timing in the list; absent at the top level. */
  readonly parent?: number
  /** Set if the timer was still running when the job ended; `end` is then the end of the job. */
  readonly unfinished?: true
}

/** A started timing. */
export interface Entry {
  readonly name: string
  readonly index: number
  readonly start: bigint
  readonly parent: Entry | undefined
  end: bigint | undefined
  unfinished: boolean
  /** Called when the job ends before the timing does. */
  readonly onUnfinished: (at: bigint) => void
}

const micros = (nanos: bigint): number => Number(nanos / 1_000n)

/** The timings of one job. Times are nanoseconds of a monotonic clock. */
export class JobTimings extends Context.Service<JobTimings, {
  /** Starts a timing inside `parent`. Undefined after the maximum number of timings or the end of the job. */
  readonly open: (
    name: string,
    at: bigint,
    parent: Entry | undefined,
    onUnfinished: (at: bigint) => void
  ) => Entry | undefined
  /** Ends a timing, unless the end of the job has ended it. */
  readonly end: (entry: Entry, at: bigint) => void
  /** Ends the job: running timings become unfinished, and no more can be started. */
  readonly close: (at: bigint) => void
  /** All timings in the order of their start, and the number of omitted ones. */
  readonly report: () => { readonly timestamps: ReadonlyArray<Timestamp>; readonly omitted: number }
}>()("@stint/worker-debugger/JobTimings") {}

/** The timing that encloses the current effect or function. */
export class EnclosingTiming
  extends Context.Service<EnclosingTiming, Entry>()("@stint/worker-debugger/JobTimings/EnclosingTiming")
{}

/** Creates the timings of a job that started at this time. */
export const make = (jobStart: bigint): JobTimings["Service"] => {
  const entries: Array<Entry> = []
  const running = new Set<Entry>()
  let omitted = 0
  let closed = false

  /**
   * The enclosing timing. A timer can outlive its parent, for example in code that is not awaited; it then belongs to the next ancestor
   * that contains it.
   */
  const enclosingOf = (entry: Entry): Entry | undefined => {
    let { parent } = entry
    while (parent !== undefined && (parent.end ?? 0n) < (entry.end ?? 0n)) parent = parent.parent
    return parent
  }

  return {
    open: (name, at, parent, onUnfinished) => {
      if (closed) return undefined
      if (entries.length === MAX_TIMINGS) {
        omitted++
        return undefined
      }
      const entry: Entry = { name, index: entries.length, start: at, parent, end: undefined, unfinished: false, onUnfinished }
      entries.push(entry)
      running.add(entry)
      return entry
    },
    end: (entry, at) => {
      if (running.delete(entry)) entry.end = at
    },
    close: (at) => {
      closed = true
      for (const entry of running) {
        entry.end = at
        entry.unfinished = true
      }
      const unfinished = [...running]
      running.clear()
      for (const entry of unfinished) entry.onUnfinished(at)
    },
    report: () => ({
      timestamps: entries.map((entry) => {
        const start = micros(entry.start - jobStart)
        const end = micros((entry.end ?? entry.start) - jobStart)
        const parent = enclosingOf(entry)
        return {
          name: entry.name,
          start: start / 1_000,
          end: end / 1_000,
          duration_ms: (end - start) / 1_000,
          ...(parent === undefined ? {} : { parent: parent.index }),
          ...(entry.unfinished ? { unfinished: true as const } : {})
        }
      }),
      omitted
    })
  }
}

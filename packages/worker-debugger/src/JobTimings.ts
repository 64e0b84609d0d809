/**
 * The timings of one job, as its report shows them.
 *
 * ```
 *   open(name, within) --> entry --end--> ended
 *                            \--the job ends first--> unfinished, as long as the job
 * ```
 *
 * Times are monotonic, and whole microseconds: the parts of a report add up.
 */
import * as Context from "effect/Context"

/** How many timings a report has. More are counted only: a timer in a loop must not fill the output. */
export const MAX_TIMINGS = 1_000

/** One timing of a report. Times are milliseconds with three decimals, and count from the moment in which the job began to run. */
export interface Timestamp {
  readonly name: string
  readonly start: number
  readonly end: number
  readonly duration_ms: number
  /** The place in the list of the timing that this one is a part of; absent for those that are part of none. */
  readonly parent?: number
  /** The timer still ran when the job ended; `end` is that moment. */
  readonly unfinished?: true
}

/** A timing that was begun. */
export interface Entry {
  readonly name: string
  readonly index: number
  readonly start: bigint
  readonly within: Entry | undefined
  end: bigint | undefined
  unfinished: boolean
  /** Ends what else was begun with it. */
  readonly cut: (at: bigint) => void
}

const micros = (nanos: bigint): number => Number(nanos / 1_000n)

/** The timings of one job. Moments are nanoseconds of a monotonic clock. */
export class JobTimings extends Context.Service<JobTimings, {
  /** Begins a timing as a part of another; undefined: there are too many, or the job has ended. `cut` ends it with the job. */
  readonly open: (
    name: string,
    at: bigint,
    within: Entry | undefined,
    cut: (at: bigint) => void
  ) => Entry | undefined
  /** Ends a timing, unless the job's end did. */
  readonly end: (entry: Entry, at: bigint) => void
  /** The job has ended: what still runs is cut, and nothing is taken any more. */
  readonly close: (at: bigint) => void
  /** All timings in the order of their beginnings; those that are left out are only counted. */
  readonly report: () => { readonly timestamps: ReadonlyArray<Timestamp>; readonly omitted: number }
}>()("@stint/worker-debugger/JobTimings") {}

/** The timing that this piece of an effect, or of code, is a part of. */
export class EnclosingTiming extends Context.Service<EnclosingTiming, Entry>()("@stint/worker-debugger/JobTimings/Enclosing") {}

/** No timings yet, of a job that begins to run now. */
export const make = (began: bigint): JobTimings["Service"] => {
  const entries: Array<Entry> = []
  const running = new Set<Entry>()
  let omitted = 0
  let closed = false

  /**
   * What a timing is a part of. A timer that outlives the one in which it was begun, as those of code that nobody waits for do, is
   * a part of whatever contains it.
   */
  const parentOf = (entry: Entry): Entry | undefined => {
    let { within } = entry
    while (within !== undefined && (within.end ?? 0n) < (entry.end ?? 0n)) within = within.within
    return within
  }

  return {
    open: (name, at, within, cut) => {
      if (closed) return undefined
      if (entries.length === MAX_TIMINGS) {
        omitted++
        return undefined
      }
      const entry: Entry = { name, index: entries.length, start: at, within, end: undefined, unfinished: false, cut }
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
      const cut = [...running]
      running.clear()
      for (const entry of cut) entry.cut(at)
    },
    report: () => ({
      timestamps: entries.map((entry) => {
        const start = micros(entry.start - began)
        const end = micros((entry.end ?? entry.start) - began)
        const parent = parentOf(entry)
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

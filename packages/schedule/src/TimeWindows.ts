/**
 * Recurring time windows, for example office hours. A window opens at each occurrence of its start and closes at the next occurrence of its
 * end.
 *
 * ```
 *   start  8:00         start             start
 *          |======open=====|================|=====......
 *   end             18:00 X                      X
 *
 *   open  <=>  the next end comes before the next start
 * ```
 *
 * This needs no memory of what happened before, so it is correct after a restart and after a clock change. A start inside an open
 * window changes nothing, as long as the end of each window comes before the start of the next one.
 */
import * as CronTimes from "./CronTimes.ts"

/** When a window opens and closes: cron expressions in a time zone. */
export interface TimeWindow {
  readonly start: string
  readonly end: string
  readonly timeZone: string
}

/** The windows at one moment. */
export interface OpenWindows<Window extends TimeWindow> {
  readonly open: ReadonlyArray<Window>
  /** When a window opens or closes next; undefined when none does. Unix time in milliseconds. */
  readonly changesAt: number | undefined
}

/** Returns the state of the windows at a Unix time in milliseconds. Cheap: it is computed again only when it has changed. */
export const make = <Window extends TimeWindow>(windows: ReadonlyArray<Window>): (now: number) => OpenWindows<Window> => {
  const times = windows.map((window) => ({
    window,
    starts: CronTimes.make(window.start, window.timeZone),
    ends: CronTimes.make(window.end, window.timeZone)
  }))
  const compute = (now: number): OpenWindows<Window> => {
    const next = times.map(({ ends, starts, window }) => ({
      window,
      start: starts.next(now) ?? Infinity,
      end: ends.next(now) ?? Infinity
    }))
    const changesAt = Math.min(...next.flatMap(({ end, start }) => [start, end]))
    return {
      open: next.filter(({ end, start }) => end < start).map(({ window }) => window),
      changesAt: changesAt === Infinity ? undefined : changesAt
    }
  }
  let known: { readonly from: number; readonly state: OpenWindows<Window> } | undefined
  return (now) => {
    // The clock may have been set back.
    if (known === undefined || now < known.from || now >= (known.state.changesAt ?? Infinity)) {
      known = { from: now, state: compute(now) }
    }
    return known.state
  }
}

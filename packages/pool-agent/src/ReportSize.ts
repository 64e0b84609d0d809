/**
 * The size of the lines in an agent's next report: what the network has recently carried in time. Pure, except for the size.
 *
 * A report that takes longer than a call may take is lost, and with enough lost reports the agent loses its connection. So the size begins low,
 * doubles after a full report that was fast, and shrinks after a slow or a lost one.
 */

/** The maximum size, as JSON, in bytes. The platform limits the whole report. */
const MAX_SIZE = 600_000

/** The size of the first report's lines. 0.5 Mbit/s carry it within a second. */
const FIRST_SIZE = 65_536

const MIN_SIZE = 4_096

/** Below this, a larger report arrives in time as well. Milliseconds. */
const FAST_MILLIS = 500

/** Above this, a slightly slower network would lose the next report. Milliseconds. */
const SLOW_MILLIS = 1_200

export interface ReportSize {
  /** The maximum size of the next report's lines. */
  readonly current: () => number
  /** A report with lines of this size took this long. */
  readonly arrived: (bytes: number, millis: number) => void
  /** A report did not arrive in time. */
  readonly lost: () => void
}

export const make = (): ReportSize => {
  let size = FIRST_SIZE
  return {
    current: () => size,
    arrived: (bytes, millis) => {
      if (millis > SLOW_MILLIS) size = Math.max(MIN_SIZE, Math.floor(size / 2))
      // The time of a report with few lines does not predict the time of a full one.
      else if (millis < FAST_MILLIS && bytes >= size / 2) size = Math.min(MAX_SIZE, size * 2)
    },
    lost: () => {
      size = Math.max(MIN_SIZE, Math.floor(size / 4))
    }
  }
}

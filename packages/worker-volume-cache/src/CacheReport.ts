/**
 * What a hydration and a sync have done, for the log and for whoever asks.
 */

/** What became of one directory when the worker started. */
export interface Hydrated {
  /** Absolute. */
  readonly directory: string
  /** Files and links that were put there. */
  readonly files: number
  readonly bytes: number
  /** Files that were there already, as the mirror has them. */
  readonly present: number
  /** Paths that are something else here than in the mirror. They stay as they are. */
  readonly differing: number
  /** Files whose bytes in the mirror are missing or damaged. The next sync that has them writes them again. */
  readonly damaged: number
  /** Files for which there was no room on this disk, or no right to write them. */
  readonly skipped: number
  readonly milliseconds: number
  /** False: it failed or took longer than it may; `trouble` says how. */
  readonly complete: boolean
  /** The first thing that went wrong. */
  readonly firstError: string | undefined
}

/** What a sync did with one directory. */
export interface Synced {
  /** Absolute. */
  readonly directory: string
  /** Files and links that the mirror did not have, or had in another version. */
  readonly files: number
  readonly bytes: number
  /** Files that were not copied, because the mirror has them. */
  readonly unchanged: number
  /** Paths that were taken out of the mirror, with `deletions: "propagate"`. */
  readonly removed: number
  /** Files that changed while they were read. They are left for the next sync. */
  readonly changing: number
  /** Files that could not be read, do not fit into `maxBytes` or `maxFiles`, or cannot be mirrored. */
  readonly skipped: number
  /** The generation that holds it all; 0 when there is no mirror. */
  readonly generation: number
  readonly milliseconds: number
  /** False: it failed or took longer than it may; `trouble` says how. */
  readonly complete: boolean
  /** The first thing that went wrong. */
  readonly firstError: string | undefined
}

const UNITS = ["B", "kB", "MB", "GB", "TB"] as const

/** A size for a human. */
export const bytes = (count: number): string => {
  let [value, unit] = [count, 0]
  while (value >= 1000 && unit < UNITS.length - 1) [value, unit] = [value / 1000, unit + 1]
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit] ?? "B"}`
}

/** A number of files for a human. */
export const files = (count: number): string => count === 1 ? "1 file" : `${count} files`

/** A time for a human. */
export const time = (milliseconds: number): string =>
  milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`

/** What to do about an error of a file system. */
export const advice = (message: string): string => {
  if (/ENOSPC|EDQUOT/.test(message)) return "Free some space there, or lower maxBytes."
  if (/EACCES|EPERM|EROFS/.test(message)) return "Let the worker's user write there."
  if (/ESTALE|EIO|ETIMEDOUT|ENOTCONN|EHOSTDOWN/.test(message)) return "Look at the mount of the volume."
  return "If it happens again, remove that mirror: it is made anew."
}

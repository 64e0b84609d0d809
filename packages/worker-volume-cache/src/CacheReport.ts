/**
 * Reports of hydrations and syncs, for the log and for the program.
 */

/** The result of hydrating one directory. */
export interface Hydrated {
  /** Absolute. */
  readonly directory: string
  /** Files and links that were created in the directory. */
  readonly files: number
  readonly bytes: number
  /** Files that already existed with the same content as in the mirror. */
  readonly present: number
  /** Paths whose content differs from the mirror's. They are not changed. */
  readonly differing: number
  /** Files whose bytes in the mirror are missing or damaged. The next sync that finds them locally writes them again. */
  readonly damaged: number
  /** Files that did not fit on the local disk or could not be written. */
  readonly skipped: number
  readonly milliseconds: number
  /** False if it failed or exceeded its time limit; `firstError` has the cause. */
  readonly complete: boolean
  /** The first error. */
  readonly firstError: string | undefined
}

/** The result of syncing one directory. */
export interface Synced {
  /** Absolute. */
  readonly directory: string
  /** Files and links that were new to the mirror or had changed. */
  readonly files: number
  readonly bytes: number
  /** Files that were not copied, because the mirror already has them. */
  readonly unchanged: number
  /** Paths that were removed from the mirror, with `deletions: "propagate"`. */
  readonly removed: number
  /** Files that changed while they were read. The next sync copies them. */
  readonly changing: number
  /** Files that could not be read, exceed `maxBytes` or `maxFiles`, or cannot be mirrored. */
  readonly skipped: number
  /** The generation of the mirror after the sync; 0 when there is no mirror. */
  readonly generation: number
  readonly milliseconds: number
  /** False if it failed or exceeded its time limit; `firstError` has the cause. */
  readonly complete: boolean
  /** The first error. */
  readonly firstError: string | undefined
}

const UNITS = ["B", "kB", "MB", "GB", "TB"] as const

/** Formats a size in bytes. */
export const bytes = (count: number): string => {
  let [value, unit] = [count, 0]
  while (value >= 1000 && unit < UNITS.length - 1) [value, unit] = [value / 1000, unit + 1]
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit] ?? "B"}`
}

/** Formats a number of files. */
export const files = (count: number): string => count === 1 ? "1 file" : `${count} files`

/** Formats a duration in milliseconds. */
export const time = (milliseconds: number): string =>
  milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`

/** Returns the remedy for a file system error. */
export const advice = (message: string): string => {
  if (/ENOSPC|EDQUOT/.test(message)) return "Free some space there, or lower maxBytes."
  if (/EACCES|EPERM|EROFS/.test(message)) return "Let the worker's user write there."
  if (/ESTALE|EIO|ETIMEDOUT|ENOTCONN|EHOSTDOWN/.test(message)) return "Check the mount of the volume."
  return "If it happens again, delete that mirror; the next sync creates it again."
}

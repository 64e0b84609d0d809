/**
 * One configured directory: its location, its mirror, and the state that this worker knows of both.
 */
import { sameTime, type ScanCache, type ScannedFile } from "./DirectoryScan.ts"
import type { Exclude } from "./ExcludePatterns.ts"
import type { Entry, Limits } from "./Manifest.ts"
import type { Mirror, Snapshot } from "./Mirror.ts"

/** A path that was the same in the directory and in the mirror when this worker last compared them. */
export interface KnownPath {
  readonly entry: Entry
  /**
   * Whether the file was modified just before it was read. File system clocks tick every few milliseconds, so it may have been modified
   * again in the same tick. The next sync therefore reads it again instead of relying on its mtime.
   */
  readonly recentlyModified: boolean
}

/** The settings of a cached directory. */
export interface Settings {
  readonly exclude: Exclude
  readonly limits: Limits
  /** Files below this size go into packs. Bytes. */
  readonly packBelow: number
  /** The number of large files that are copied concurrently. */
  readonly concurrency: number
  readonly deletions: "keep" | "propagate"
  /** Milliseconds. */
  readonly grace: number
  readonly trustDirectories: boolean
}

/** A directory and its mutable state, which hydration and syncs update. */
export interface CachedDirectory {
  /** Absolute. */
  readonly root: string
  readonly mirror: Mirror
  readonly settings: Settings
  readonly known: Map<string, KnownPath>
  /** Entries of the mirror whose bytes are missing or damaged. They count as missing. */
  readonly damaged: Map<string, Entry>
  /** The result of the last scan, with `trustDirectories`. */
  readonly scanCache: ScanCache
  /** The state of the mirror when this worker last read or wrote it. */
  lastSnapshot: Snapshot | undefined
}

/** Whether a file has the size, modification time and mode of an entry. */
export const matches = (entry: Entry | undefined, file: Pick<ScannedFile, "size" | "mtime" | "mode">): boolean =>
  (entry?.kind === "packed" || entry?.kind === "copied") &&
  entry.size === file.size && entry.mode === file.mode && sameTime(entry.mtime, file.mtime)

/**
 * One configured directory: where it is, where its mirror is, and what this worker knows of both.
 */
import { sameTime, type ScanCache, type ScannedFile } from "./DirectoryScan.ts"
import type { Exclude } from "./ExcludePatterns.ts"
import type { Entry, Limits } from "./Manifest.ts"
import type { Mirror, Snapshot } from "./Mirror.ts"

/** A path that was the same here and in the mirror when this worker last looked. */
export interface KnownPath {
  readonly entry: Entry
  /**
   * The file was written to just before it was read. Clocks of file systems tick every few milliseconds, so it may have been written to
   * again in the same tick; the next sync reads it again instead of trusting its mtime.
   */
  readonly recentlyModified: boolean
}

/** How a directory is cached. */
export interface Settings {
  readonly exclude: Exclude
  readonly limits: Limits
  /** Files below this size go into packs. Bytes. */
  readonly packBelow: number
  /** How many large files are copied at a time. */
  readonly concurrency: number
  readonly deletions: "keep" | "propagate"
  /** Milliseconds. */
  readonly grace: number
  readonly trustDirectories: boolean
}

/** A directory and its state, which hydration and syncs change. */
export interface CachedDirectory {
  /** Absolute. */
  readonly root: string
  readonly mirror: Mirror
  readonly settings: Settings
  readonly known: Map<string, KnownPath>
  /** Entries of the mirror whose bytes were found missing or damaged: as good as not there. */
  readonly damaged: Map<string, Entry>
  /** What the last scan found, with `trustDirectories`. */
  readonly memory: ScanCache
  /** What the mirror held when this worker last read or wrote it. */
  held: Snapshot | undefined
}

/** Whether a file is, by size, time and mode, what an entry says. */
export const matches = (entry: Entry | undefined, file: Pick<ScannedFile, "size" | "mtime" | "mode">): boolean =>
  (entry?.kind === "packed" || entry?.kind === "copied") &&
  entry.size === file.size && entry.mode === file.mode && sameTime(entry.mtime, file.mtime)

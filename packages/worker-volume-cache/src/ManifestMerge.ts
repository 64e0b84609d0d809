/**
 * Merges the changes made by one worker into the current manifest. It has no side effects, because it runs again whenever another worker published first.
 *
 * ```
 *   case          last known state    local state    mirror              result
 *   added         -                   new            -                   new
 *   changed       old                 new            old                 new
 *   conflict      old                 new            other               the later mtime
 *   deleted       old                 -              old                 kept; removed with deletions: "propagate"
 *   deleted       old                 -              other               kept, because another worker has changed it
 *   remote only   -                   -              any                 kept
 *   other kind    -                   a file         a directory         kept, and vice versa
 * ```
 *
 * A sync therefore never deletes files that other workers added, and by default it deletes nothing.
 */
import * as Manifest from "./Manifest.ts"

/** The change to one path. */
export interface Change {
  /** The new entry, or undefined to remove the path. */
  readonly entry: Manifest.Entry | undefined
  /** The entry that this worker knew, or undefined for a new path. */
  readonly base: Manifest.Entry | undefined
  /** Whether a conflict drops the change. Otherwise the later mtime wins. */
  readonly strict: boolean
}

/** The changes made by one worker. */
export interface Changes {
  readonly paths: ReadonlyMap<string, Change>
  /** The sizes of the packs of its entries, by name. */
  readonly packs: ReadonlyMap<string, number>
}

const mtimeOf = (entry: Manifest.Entry | undefined): number | undefined =>
  entry?.kind === "packed" || entry?.kind === "copied" ? entry.mtime : undefined

/** Whether `theirs` is newer than `ours`, if both have a modification time. */
const isLater = (theirs: Manifest.Entry, ours: Manifest.Entry): boolean => (mtimeOf(theirs) ?? 0) > (mtimeOf(ours) ?? Infinity)

const applyOne = (entries: Map<string, Manifest.Entry>, path: string, { base, entry, strict }: Change): boolean => {
  const current = entries.get(path)
  if (Manifest.same(current, entry)) return false
  const conflict = !Manifest.same(current, base)
  if (conflict && strict) return false
  if (entry === undefined) return entries.delete(path)
  if (conflict && current !== undefined && isLater(current, entry)) return false
  // A directory and a file cannot have the same name. The existing one stays, because it may be another worker's.
  if (Manifest.blockingAncestor(entries, path) !== undefined) return false
  if (current?.kind === "directory" && entry.kind !== "directory") {
    for (const other of entries.keys()) if (other.startsWith(`${path}/`)) return false
  }
  entries.set(path, entry)
  return true
}

/**
 * Returns the manifest with these changes, or undefined if they change nothing. Packs and copies that become unused are listed in `dropped`
 * with the time; after the grace period they are removed from the list and can then be deleted.
 */
export const merge = (
  current: Manifest.Manifest,
  changes: Changes,
  now: number,
  grace: number
): Manifest.Manifest | undefined => {
  const entries = new Map(current.entries)
  let changed = false
  for (const [path, change] of changes.paths) changed = applyOne(entries, path, change) || changed

  const due = Array.from(current.dropped).filter(([, at]) => at + grace < now)
  if (!changed && due.length === 0) return undefined

  const used = new Set<string>()
  for (const entry of entries.values()) {
    const name = Manifest.storedFileName(entry)
    if (name !== undefined) used.add(name)
  }
  const packs = new Map<string, number>()
  for (const [name, bytes] of [...current.packs, ...changes.packs]) if (used.has(name)) packs.set(name, bytes)

  const dropped = new Map(current.dropped)
  for (const [name] of due) dropped.delete(name)
  const drop = (name: string | undefined) => {
    if (name !== undefined && !used.has(name) && !dropped.has(name)) dropped.set(name, now)
  }
  if (changed) {
    for (const name of current.packs.keys()) drop(name)
    for (const [path, entry] of current.entries) if (entries.get(path) !== entry) drop(Manifest.storedFileName(entry))
    for (const { entry } of changes.paths.values()) if (entry !== undefined) drop(Manifest.storedFileName(entry))
  }
  return { entries, packs, dropped }
}

/** The number of unused bytes of each pack. */
const deadBytes = (manifest: Manifest.Manifest): ReadonlyMap<string, number> => {
  const dead = new Map(manifest.packs)
  for (const entry of manifest.entries.values()) {
    if (entry.kind === "packed") dead.set(entry.pack, (dead.get(entry.pack) ?? 0) - entry.size)
  }
  return dead
}

/** A pack is rewritten when this share of it is unused. A lower value saves space on the volume but rewrites more. */
const DEAD_SHARE = 0.5
/** Packs below this size count as small; a sync of a few files creates such a pack. Bytes. */
const SMALL_PACK = 1024 * 1024
/** Small packs are merged once there are this many. Each pack costs a cold worker one more file to open. */
const SMALL_PACKS = 32
/** The maximum size of packs that one sync rewrites. Bytes. */
const COMPACTED = 256 * 1024 * 1024

/** Selects the packs to rewrite: packs that are mostly unused, and small packs when there are many. */
export const packsToCompact = (manifest: Manifest.Manifest): ReadonlySet<string> => {
  const dead = deadBytes(manifest)
  const chosen = new Set<string>()
  let bytes = 0
  const small = Array.from(manifest.packs).filter(([, size]) => size < SMALL_PACK)
  for (const [name, size] of manifest.packs) {
    const worth = (dead.get(name) ?? 0) > size * DEAD_SHARE || (size < SMALL_PACK && small.length >= SMALL_PACKS)
    if (!worth || bytes + size > COMPACTED) continue
    chosen.add(name)
    bytes += size
  }
  return chosen
}

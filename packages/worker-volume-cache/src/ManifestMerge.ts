/**
 * How what one worker found changes what the mirror holds. Pure: it is run again whenever another worker was faster.
 *
 * ```
 *   path       this worker knew    it has now     the mirror has      outcome
 *   added      -                   new            -                   new
 *   changed    old                 new            old                 new
 *   both       old                 new            other               the later mtime
 *   gone       old                 -              old                 kept; dropped with deletions: "propagate"
 *   gone       old                 -              other               kept: a sibling has made a newer one
 *   only there -                   -              any                 kept
 *   kind       -                   a file         a directory         kept, and the other way round
 * ```
 *
 * So a sync never deletes what a sibling added, and by default it deletes nothing.
 */
import * as Manifest from "./Manifest.ts"

/** A path that is to change. */
export interface Change {
  /** What it becomes; undefined: it goes. */
  readonly entry: Manifest.Entry | undefined
  /** What this writer took it for; undefined: for new. */
  readonly base: Manifest.Entry | undefined
  /** Only if it still is what it was taken for. Otherwise the later mtime wins. */
  readonly strict: boolean
}

/** What one writer wants. */
export interface Changes {
  readonly paths: ReadonlyMap<string, Change>
  /** Sizes of the packs that its entries are in. */
  readonly packs: ReadonlyMap<string, number>
}

const mtimeOf = (entry: Manifest.Entry | undefined): number | undefined =>
  entry?.kind === "packed" || entry?.kind === "copied" ? entry.mtime : undefined

/** Whether `theirs` was made after `ours`, as far as that can be told. */
const isLater = (theirs: Manifest.Entry, ours: Manifest.Entry): boolean => (mtimeOf(theirs) ?? 0) > (mtimeOf(ours) ?? Infinity)

const applyOne = (entries: Map<string, Manifest.Entry>, path: string, { base, entry, strict }: Change): boolean => {
  const current = entries.get(path)
  if (Manifest.same(current, entry)) return false
  const conflict = !Manifest.same(current, base)
  if (conflict && strict) return false
  if (entry === undefined) return entries.delete(path)
  if (conflict && current !== undefined && isLater(current, entry)) return false
  // A directory and a file cannot have one name. Neither makes way: what is below or above may be a sibling's.
  if (Manifest.obstacle(entries, path) !== undefined) return false
  if (current?.kind === "directory" && entry.kind !== "directory") {
    for (const other of entries.keys()) if (other.startsWith(`${path}/`)) return false
  }
  entries.set(path, entry)
  return true
}

/**
 * The mirror with these changes, or undefined when they change nothing. What goes out of use is listed with the time; what has been
 * listed for longer than the grace is forgotten, and so free to be deleted.
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

/** The bytes of each pack that no entry uses. */
const deadBytes = (manifest: Manifest.Manifest): ReadonlyMap<string, number> => {
  const dead = new Map(manifest.packs)
  for (const entry of manifest.entries.values()) {
    if (entry.kind === "packed") dead.set(entry.pack, (dead.get(entry.pack) ?? 0) - entry.size)
  }
  return dead
}

/** A pack is worth writing again when this share of it is dead. Lower saves space on the volume and costs writing. */
const DEAD_SHARE = 0.5
/** A pack below this size is a small one: what a sync of a few files leaves. Bytes. */
const SMALL_PACK = 1024 * 1024
/** So many small packs are gathered into one. Each costs a cold worker one more file to open. */
const SMALL_PACKS = 32
/** The most that one sync writes again. Bytes. */
const COMPACTED = 256 * 1024 * 1024

/** The packs whose live bytes should be written into new ones: those that are mostly dead, and small ones when they are many. */
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

/**
 * Rewrites packs that are mostly unused, and many small packs, into new packs.
 *
 * ```
 *   pack a  [ x | dead | dead ]                 pack c  [ x | y ]
 *   pack b  [ dead | y | dead ]      -->        a, b: dropped, deleted after the grace period
 * ```
 *
 * It moves only entries that have not changed since it read them, because other workers write to the same mirror.
 */
import * as Effect from "effect/Effect"
import type { CachedDirectory } from "./CachedDirectory.ts"
import * as Checksum from "./Checksum.ts"
import * as Manifest from "./Manifest.ts"
import * as ManifestMerge from "./ManifestMerge.ts"
import * as Mirror from "./Mirror.ts"
import { VolumeFiles } from "./VolumeFiles.ts"

/** The maximum size of a new pack. Bytes. */
const PACK = 16 * 1024 * 1024

/** Compacts the packs that {@link ManifestMerge.packsToCompact} selects, if any. */
export const compact = Effect.fn("VolumeCache.compact")(function*(directory: CachedDirectory) {
  const { known, mirror, settings } = directory
  const last = directory.lastSnapshot
  if (last === undefined) return
  const chosen = ManifestMerge.packsToCompact(last.manifest)
  if (chosen.size === 0) return

  const files = yield* VolumeFiles
  const live = new Map<string, Array<readonly [path: string, entry: Manifest.PackedEntry]>>()
  for (const [path, entry] of last.manifest.entries) {
    if (entry.kind !== "packed" || !chosen.has(entry.pack)) continue
    const same = live.get(entry.pack)
    if (same === undefined) live.set(entry.pack, [[path, entry]])
    else same.push([path, entry])
  }

  const paths = new Map<string, ManifestMerge.Change>()
  const packs = new Map<string, number>()
  let name = `${Mirror.uniqueName()}.pack`
  let parts: Array<Buffer> = []
  let end = 0
  const close = Effect.suspend(() => {
    if (parts.length === 0) return Effect.void
    const [path, content] = [mirror.pack(name), parts]
    packs.set(name, end)
    name = `${Mirror.uniqueName()}.pack`
    parts = []
    end = 0
    return files.write(path, content, { durable: false })
  })

  for (const [pack, entries] of live) {
    const bytes = yield* files.read(mirror.pack(pack), 0, last.manifest.packs.get(pack) ?? 0)
    for (const [path, entry] of entries) {
      const content = bytes.subarray(entry.offset, entry.offset + entry.size)
      // Damaged files are not moved; the next hydration reports them.
      if (Checksum.sum(content) !== entry.crc) continue
      if (end > 0 && end + content.length > PACK) yield* close
      paths.set(path, { entry: { ...entry, pack: name, offset: end }, base: entry, strict: true })
      parts.push(content)
      end += content.length
    }
  }
  yield* close

  const { snapshot } = yield* mirror.publish(
    last,
    (current, time) => ManifestMerge.merge(current, { paths, packs }, time, settings.grace)
  )
  directory.lastSnapshot = snapshot
  for (const [path, { base, entry }] of paths) {
    const mine = known.get(path)
    if (entry !== undefined && mine !== undefined && Manifest.same(mine.entry, base)) known.set(path, { ...mine, entry })
  }
})

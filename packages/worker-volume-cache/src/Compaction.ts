/**
 * Writes the live bytes of mostly dead and of many small packs into new packs.
 *
 * ```
 *   pack a  [ x | dead | dead ]                 pack c  [ x | y ]
 *   pack b  [ dead | y | dead ]      -->        a, b: dropped, deleted after the grace
 * ```
 *
 * It moves entries that are still what they were when it read them, and no others: another worker may have changed them meanwhile.
 */
import * as Effect from "effect/Effect"
import type { CachedDirectory } from "./CachedDirectory.ts"
import * as Checksum from "./Checksum.ts"
import * as Manifest from "./Manifest.ts"
import * as ManifestMerge from "./ManifestMerge.ts"
import * as Mirror from "./Mirror.ts"
import { VolumeFiles } from "./VolumeFiles.ts"

/** The size at which a new pack is closed. Bytes. */
const PACK = 16 * 1024 * 1024

/** Compacts the packs that are worth it, if there are any. */
export const compact = Effect.fn("VolumeCache.compact")(function*(directory: CachedDirectory) {
  const { known, mirror, settings } = directory
  const held = directory.held
  if (held === undefined) return
  const chosen = ManifestMerge.packsToCompact(held.manifest)
  if (chosen.size === 0) return

  const files = yield* VolumeFiles
  const live = new Map<string, Array<readonly [path: string, entry: Manifest.PackedEntry]>>()
  for (const [path, entry] of held.manifest.entries) {
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
    const bytes = yield* files.read(mirror.pack(pack), 0, held.manifest.packs.get(pack) ?? 0)
    for (const [path, entry] of entries) {
      const content = bytes.subarray(entry.offset, entry.offset + entry.size)
      // Damage is not carried on; whoever hydrates it finds out.
      if (Checksum.sum(content) !== entry.crc) continue
      if (end > 0 && end + content.length > PACK) yield* close
      paths.set(path, { entry: { ...entry, pack: name, offset: end }, base: entry, strict: true })
      parts.push(content)
      end += content.length
    }
  }
  yield* close

  const { snapshot } = yield* mirror.publish(
    held,
    (now, time) => ManifestMerge.merge(now, { paths, packs }, time, settings.grace)
  )
  directory.held = snapshot
  for (const [path, { base, entry }] of paths) {
    const mine = known.get(path)
    if (entry !== undefined && mine !== undefined && Manifest.same(mine.entry, base)) known.set(path, { ...mine, entry })
  }
})

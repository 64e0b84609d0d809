/**
 * A volume cache for tests: one without a volume, and volumes that go away with the test.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtemp, realpath, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Options } from "../CacheConfig.ts"
import type { Hydrated } from "../CacheReport.ts"
import * as VolumeCache from "../VolumeCache.ts"

/** A cache that touches no file, and how often it was synced. */
export interface Recorder {
  /** So many syncs were asked for; the one at the end counts when `layer` is closed. */
  readonly syncs: () => number
  readonly layer: Layer.Layer<VolumeCache.VolumeCache>
}

/** A cache in memory. `hydrated` is what it says it was filled with. */
export const recorder = (hydrated: ReadonlyArray<Hydrated> = []): Recorder => {
  let syncs = 0
  const sync = Effect.sync(() => {
    syncs++
    return []
  })
  return {
    syncs: () => syncs,
    layer: Layer.effect(
      VolumeCache.VolumeCache,
      Effect.as(Effect.addFinalizer(() => sync), { active: true, hydrated, sync })
    )
  }
}

/** A cache that touches no file. */
export const layer: Layer.Layer<VolumeCache.VolumeCache> = Layer.suspend(() => recorder().layer)

/** An empty folder that is removed when the scope closes: a volume, or a directory to cache. */
export const folder = Effect.acquireRelease(
  Effect.promise(async () => realpath(await mkdtemp(join(tmpdir(), "stint-volume-cache-")))),
  (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
)

/** The real cache on a volume that is removed with the layer. */
export const layerTemporary = (options: Omit<Options, "volume">) =>
  Layer.unwrap(Effect.map(folder, (volume) => VolumeCache.layer({ endpoint: "test", ...options, volume })))

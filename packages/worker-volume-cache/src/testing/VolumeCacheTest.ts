/**
 * Volume caches for tests: a recorder without a volume, and temporary volumes.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtemp, realpath, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Options } from "../CacheConfig.ts"
import type { Hydrated } from "../CacheReport.ts"
import * as VolumeCache from "../VolumeCache.ts"

/** A cache without file access, and the number of its syncs. */
export interface Recorder {
  /** The number of requested syncs. The final sync counts when `layer` is closed. */
  readonly syncs: () => number
  readonly layer: Layer.Layer<VolumeCache.VolumeCache>
}

/** Creates an in-memory cache that reports `hydrated`. */
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

/**
 * A cache without file access.
 *
 * @public
 */
export const layer: Layer.Layer<VolumeCache.VolumeCache> = Layer.suspend(() => recorder().layer)

/** An empty folder, for a volume or a cached directory. It is removed when the scope closes. */
export const folder = Effect.acquireRelease(
  Effect.promise(async () => realpath(await mkdtemp(join(tmpdir(), "stint-volume-cache-")))),
  (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
)

/** The real cache on a temporary volume, which is removed with the layer. */
export const layerTemporary = (options: Omit<Options, "volume">) =>
  Layer.unwrap(Effect.map(folder, (volume) => VolumeCache.layer({ endpoint: "test", ...options, volume })))

/**
 * `VolumeCache` for plain code (docs/spec/volume-cache.md#using-a-cache).
 */
import type { Handle, Options } from "@stint/worker-volume-cache/VolumeCache"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export type { Handle, Options } from "@stint/worker-volume-cache/VolumeCache"

/** Caches that nobody has closed yet; the worker's end does. */
const open = new Set<Handle>()

/**
 * Fills directories from the network volume, and brings what is new in them back to it at the end of the block, so that the next cold
 * worker starts warm.
 *
 * Without a volume, and outside of an endpoint, it does nothing. It never fails for what is wrong with the volume: that is a line in the
 * log, and a cold start. A cache that is still open when the worker ends is synced then. Rejects with a TypeError for wrong options.
 *
 * @example
 * ```ts
 * const loadModel = async () => {
 *   await using cache = await sdk.serverless.VolumeCache({ dirs: ["/root/.cache/models"] })
 *   return load("/root/.cache/models/sd15") // downloads it, unless a worker before did
 * }
 * ```
 */
export const VolumeCache = async (options: Options): Promise<Handle> => {
  const cache = await import("@stint/worker-volume-cache/VolumeCache")
  const handle = await cache.open(options)
  const close = async () => {
    open.delete(tracked)
    await handle.close()
  }
  const tracked: Handle = { ...handle, close, [Symbol.asyncDispose]: close }
  open.add(tracked)
  return tracked
}

/** Closes what is still open when the worker has ended. */
export const layer: Layer.Layer<never> = Layer.effectDiscard(
  Effect.addFinalizer(() => Effect.promise(() => Promise.all([...open].map((handle) => handle.close()))))
)

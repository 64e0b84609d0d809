/**
 * `VolumeCache` with a promise interface (docs/spec/volume-cache.md#using-a-cache).
 */
import type { Handle, Options } from "@stint/worker-volume-cache/VolumeCache"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export type { Handle, Options } from "@stint/worker-volume-cache/VolumeCache"

/** The open caches. The worker closes them when it ends. */
const open = new Set<Handle>()

/**
 * Fills directories from the network volume, and writes new files back to the volume when the cache closes. The next cold
 * worker then starts with these files.
 *
 * Without a volume, or outside an endpoint, it does nothing. A volume error is logged and costs a cold start, but never fails the
 * handler. The worker closes an open cache when it ends. Rejects with a TypeError for invalid options.
 *
 * @example
 * ```ts
 * const loadModel = async () => {
 *   await using cache = await sdk.serverless.VolumeCache({ dirs: ["/root/.cache/models"] })
 *   return load("/root/.cache/models/sd15") // downloads the model if no earlier worker has
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

/** Closes the open caches after the worker has ended. */
export const layer: Layer.Layer<never> = Layer.effectDiscard(
  Effect.addFinalizer(() => Effect.promise(() => Promise.all([...open].map((handle) => handle.close()))))
)

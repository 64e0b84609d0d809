/**
 * Stores payloads in memory: the reference implementation, for tests and trials. Payloads are lost when the process exits.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { Damaged, Missing, PayloadError } from "./PayloadError.ts"
import { type PayloadKey, PayloadStore } from "./PayloadStore.ts"

const description = "the payload store in memory"

/** Each build of the layer creates an empty store. */
export const layer: Layer.Layer<PayloadStore> = Layer.sync(PayloadStore, () => {
  const objects = new Map<PayloadKey, Uint8Array>()
  return PayloadStore.of({
    description,
    put: (key, bytes) =>
      Effect.sync(() => {
        objects.set(key, bytes.slice())
      }),
    get: (key, size) =>
      Effect.suspend(() => {
        const bytes = objects.get(key)
        if (bytes === undefined) return new PayloadError({ store: description, reason: new Missing({ key }) })
        if (bytes.byteLength !== size) {
          const problem = `it has ${bytes.byteLength} bytes, not ${size}`
          return new PayloadError({ store: description, reason: new Damaged({ key, problem }) })
        }
        return Effect.succeed(bytes.slice())
      }),
    remove: (key) =>
      Effect.sync(() => {
        objects.delete(key)
      }),
    list: (path) => Stream.suspend(() => Stream.fromIterable([...objects.keys()].filter((key) => key.startsWith(`${path}/`))))
  })
})

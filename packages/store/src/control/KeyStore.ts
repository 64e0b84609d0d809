/**
 * The seam for keys: what they open and the digests of their secrets, kept beside the jobs and the endpoints.
 *
 * It lives with the queue for the reason that endpoints do (docs/decisions/0002-endpoints-beside-jobs.md): every backend that keeps jobs
 * keeps these too, in the same database. No secret ever gets here.
 */
import { AccessKey, type KeyId } from "@stint/contract/AccessKey"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import type { StoreError } from "../StoreError.ts"

/** A key with the digests of its secrets: SHA-256, in hexadecimal (docs/decisions/0009-keys-at-rest.md). */
export const KeyRecord = Schema.Struct({
  // What follows from the rest and the time is not kept.
  ...Struct.omit(AccessKey.fields, ["status", "previousUntil"]),
  digest: Schema.String,
  /** Secrets from before, latest first, each with the time at which it ends. Some are kept longer, to tell who still uses them. */
  previous: Schema.Array(Schema.Struct({ digest: Schema.String, until: Schema.Int }))
})
export type KeyRecord = typeof KeyRecord.Type

export class KeyStore extends Context.Service<KeyStore, {
  /**
   * Undefined when there is none. On the hot path of every request: backends answer from memory, and keep it true to what is stored; what
   * another process changes in a shared database is known within `KeyCache.SHARED_REFRESH`. It cannot fail, so that keys are known while
   * the database is away.
   */
  readonly get: (id: string) => Effect.Effect<KeyRecord | undefined>
  /** All, oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<KeyRecord>, StoreError>
  /** Keeps a new key, or replaces one. */
  readonly put: (key: KeyRecord) => Effect.Effect<void, StoreError>
  /**
   * Changes a key in one atomic step and answers what it is now; undefined when there is none. `change` may run more than once, and
   * leaves the id alone.
   */
  readonly update: (id: KeyId, change: (key: KeyRecord) => KeyRecord) => Effect.Effect<KeyRecord | undefined, StoreError>
  /** True when it was there. */
  readonly remove: (id: KeyId) => Effect.Effect<boolean, StoreError>
}>()("@stint/store/KeyStore") {}

/** The order of a list: by age, and by id among those of one millisecond. */
export const byAge = (a: KeyRecord, b: KeyRecord): number => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1)

/** Keys in memory, gone with the process. */
export const layerMemory: Layer.Layer<KeyStore> = Layer.sync(KeyStore, () => {
  const keys = new Map<string, KeyRecord>()
  return KeyStore.of({
    get: (id) => Effect.sync(() => keys.get(id)),
    list: Effect.sync(() => [...keys.values()].sort(byAge)),
    put: (key) =>
      Effect.sync(() => {
        keys.set(key.id, key)
      }),
    update: (id, change) =>
      Effect.sync(() => {
        const known = keys.get(id)
        if (known === undefined) return undefined
        const changed = change(known)
        keys.set(id, changed)
        return changed
      }),
    remove: (id) => Effect.sync(() => keys.delete(id))
  })
})

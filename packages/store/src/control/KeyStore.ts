/**
 * The store of access keys: their permissions and the digests of their secrets, in the same database as jobs and endpoints
 * (docs/decisions/0002-endpoints-beside-jobs.md). It never contains a secret.
 */
import { AccessKey, type KeyId } from "@stint/contract/AccessKey"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import type { StoreError } from "../StoreError.ts"

/** A key with the digests of its secrets: SHA-256 in hexadecimal (docs/decisions/0009-keys-at-rest.md). */
export const KeyRecord = Schema.Struct({
  // Derived from other fields and the current time.
  ...Struct.omit(AccessKey.fields, ["status", "previousUntil"]),
  digest: Schema.String,
  /**
   * Earlier secrets, latest first, with the end of their validity. Some are stored past the end of their validity, to detect clients that
   * still use them.
   */
  previous: Schema.Array(Schema.Struct({ digest: Schema.String, until: Schema.Int }))
})
export type KeyRecord = typeof KeyRecord.Type

export class KeyStore extends Context.Service<KeyStore, {
  /**
   * Undefined for an unknown key. Called for every request, so backends read from an in-memory cache of the database. Changes made by
   * another process appear within `KeyCache.SHARED_REFRESH`. Never fails, so keys work while the database is unavailable.
   */
  readonly get: (id: string) => Effect.Effect<KeyRecord | undefined>
  /** All keys, oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<KeyRecord>, StoreError>
  /** Creates or replaces a key. */
  readonly put: (key: KeyRecord) => Effect.Effect<void, StoreError>
  /**
   * Changes a key in one atomic step and returns the result; undefined for an unknown key. `change` may run more than once and must keep
   * the id.
   */
  readonly update: (id: KeyId, change: (key: KeyRecord) => KeyRecord) => Effect.Effect<KeyRecord | undefined, StoreError>
  /** Returns whether the key existed. */
  readonly remove: (id: KeyId) => Effect.Effect<boolean, StoreError>
}>()("@stint/store/KeyStore") {}

/** The order of a list: by creation time, then by id. */
export const byAge = (a: KeyRecord, b: KeyRecord): number => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1)

/** Keys in memory. */
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

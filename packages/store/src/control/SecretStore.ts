/**
 * The store of secrets. It contains encrypted values only: `@stint/secrets` encrypts and decrypts them.
 */
import { SecretName } from "@stint/contract/Secret"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { StoreError } from "../StoreError.ts"

/** A secret with its encrypted value. */
export const SecretRecord = Schema.Struct({
  name: SecretName,
  /** Random. Changes whenever the value changes, and when the secret is deleted and created again. */
  version: Schema.String,
  /** Milliseconds since 1970. */
  createdAt: Schema.Int,
  /** When the value was last changed. Milliseconds since 1970. */
  updatedAt: Schema.Int,
  /** The id of the key that encrypted the value. */
  key: Schema.String,
  /** The encrypted value, in base64. */
  sealed: Schema.String
})
export type SecretRecord = typeof SecretRecord.Type

export class SecretStore extends Context.Service<SecretStore, {
  /** All secrets, ordered by name, with all changes by this process, and those by others up to 1.25 s ago. */
  readonly list: Effect.Effect<ReadonlyArray<SecretRecord>, StoreError>
  /** Creates or replaces secrets in one atomic step. */
  readonly put: (secrets: ReadonlyArray<SecretRecord>) => Effect.Effect<void, StoreError>
  /** Returns whether the secret existed. */
  readonly remove: (name: SecretName) => Effect.Effect<boolean, StoreError>
}>()("@stint/store/SecretStore") {}

/** Secrets in memory. */
export const layerMemory: Layer.Layer<SecretStore> = Layer.sync(SecretStore, () => {
  const secrets = new Map<SecretName, SecretRecord>()
  return SecretStore.of({
    list: Effect.sync(() => [...secrets.values()].sort((a, b) => (a.name < b.name ? -1 : 1))),
    put: (changed) =>
      Effect.sync(() => {
        for (const secret of changed) secrets.set(secret.name, secret)
      }),
    remove: (name) => Effect.sync(() => secrets.delete(name))
  })
})

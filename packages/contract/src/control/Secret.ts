/**
 * Secrets: named values that workers receive as environment variables (docs/operations/secrets.md).
 *
 * A value can be set, replaced and deleted, but the platform never returns it. Endpoints refer to a secret by its name, so a new value requires no
 * change to the endpoint.
 */
import * as Schema from "effect/Schema"
import { EndpointId } from "../Ids.ts"

/** The name of a secret. */
export const SecretName = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, {
    message: "a secret's name is 1 to 63 letters, digits, - _ or ., and starts with a letter or a digit"
  })
).pipe(Schema.brand("SecretName"))
export type SecretName = typeof SecretName.Type

/** The maximum size of a value, in bytes of UTF-8. Operating systems limit a variable to 128 KiB. */
export const MAX_SECRET_BYTES = 65_536

/** The minimum length of a value that is masked in text from workers, in characters. Shorter ones would match ordinary words. */
export const SHORTEST_MASKED = 8

/** A secret, without its value. */
export const Secret = Schema.Struct({
  name: SecretName,
  /** Changes whenever the value changes. Reveals nothing about the value. */
  version: Schema.String,
  /** Milliseconds since 1970. */
  createdAt: Schema.Int,
  /** When the value was last changed. Milliseconds since 1970. */
  updatedAt: Schema.Int,
  /** The endpoints whose `env` or `modelToken` refers to the secret. */
  endpoints: Schema.Array(EndpointId)
})
export type Secret = typeof Secret.Type

/** The body of `PUT /api/v1/secrets/{secret}`. */
export const SecretValue = Schema.Struct({ value: Schema.RedactedFromValue(Schema.String) })
export type SecretValue = typeof SecretValue.Type

/** The result of setting a secret. */
export const SecretChange = Schema.Struct({
  ...Secret.fields,
  /** False if the secret already had this value. Then its version does not change, and no worker is replaced. */
  changed: Schema.Boolean
})
export type SecretChange = typeof SecretChange.Type

/** The result of rotating the key that encrypts the secrets. */
export const SecretsKeyRotation = Schema.Struct({
  /** Identifies the key that encrypts all secrets now. It is derived from the key, but does not reveal it. */
  key: Schema.String,
  /** Where the key is stored, for messages. */
  place: Schema.String,
  /** The number of secrets that were re-encrypted. */
  secrets: Schema.Int
})
export type SecretsKeyRotation = typeof SecretsKeyRotation.Type

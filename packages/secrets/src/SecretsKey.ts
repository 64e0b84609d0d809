/**
 * The keys that encrypt secrets. A seam: the platform reads them from a file or a variable, and another implementation can fetch them from a
 * key management service (docs/extending/secrets-key.md).
 *
 * There are several keys only during a rotation: the first key encrypts, and all of them decrypt.
 *
 * ```
 *   [A] --write--> [B, A] --secrets are re-encrypted with B-----> [B, A] --write--> [B]
 * ```
 *
 * A crash at any point leaves keys that decrypt every secret.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createHash, randomBytes } from "node:crypto"

/** The length of an AES-256 key. */
const KEY_BYTES = 32

/** A key, with an id that is derived from it. The id identifies the key in messages and records without revealing it. */
export interface EncryptionKey {
  readonly id: string
  readonly bytes: Redacted.Redacted<Uint8Array>
}

/** The keys cannot be read or written. */
export class SecretsKeyError extends Schema.TaggedError<SecretsKeyError>()("SecretsKeyError", {
  /** The problem and its location, as a sentence. */
  message: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String
}) {}

export class SecretsKey extends Context.Service<SecretsKey, {
  /** Where the keys are, for messages: `the file /var/lib/stint/secrets-key`. */
  readonly place: string
  /** The keys, the current one first. Empty when no key exists yet, which is an error without `write`. */
  readonly read: Effect.Effect<ReadonlyArray<EncryptionKey>, SecretsKeyError>
  /**
   * Replaces the keys durably. Undefined when only the operator can change them: the operator then adds a new key before the old one, and a
   * rotation re-encrypts the secrets with the first key.
   */
  readonly write: ((keys: ReadonlyArray<EncryptionKey>) => Effect.Effect<void, SecretsKeyError>) | undefined
}>()("@stint/secrets/SecretsKey") {}

const keyOf = (bytes: Uint8Array): EncryptionKey => ({
  id: createHash("sha256").update("stint secrets key\n").update(bytes).digest("hex").slice(0, 12),
  bytes: Redacted.make(bytes)
})

/** A new key of 256 random bits. */
export const generate: Effect.Effect<EncryptionKey> = Effect.sync(() => keyOf(randomBytes(KEY_BYTES)))

const parseOne = (text: string): EncryptionKey | undefined => {
  const bytes = /^[0-9a-fA-F]{64}$/.test(text)
    ? Buffer.from(text, "hex")
    : /^[A-Za-z0-9+/_-]{43}=?$/.test(text)
    ? Buffer.from(text, "base64url")
    : undefined
  return bytes?.length === KEY_BYTES ? keyOf(bytes) : undefined
}

/** The form of the text that {@link parse} accepts. Completes "It must be ...". */
export const SHAPE = "32 random bytes in base64 or hexadecimal, for example the output of `openssl rand -base64 32`"

/** Reads keys that are separated by spaces, commas or lines, in base64 or hexadecimal. Undefined when one of them is not a key. */
export const parse = (text: string): ReadonlyArray<EncryptionKey> | undefined => {
  const keys = text.split(/[\s,]+/).filter((part) => part !== "").map(parseOne)
  return keys.every((key) => key !== undefined) ? keys : undefined
}

/** The keys as text, one per line. */
export const format = (keys: ReadonlyArray<EncryptionKey>): string =>
  keys.map(({ bytes }) => `${Buffer.from(Redacted.value(bytes)).toString("base64")}\n`).join("")

/** A key in memory, for platforms that store nothing. */
export const layerMemory: Layer.Layer<SecretsKey> = Layer.sync(SecretsKey, () => {
  let keys: ReadonlyArray<EncryptionKey> = []
  return SecretsKey.of({
    place: "the memory of this process",
    read: Effect.sync(() => keys),
    write: (next) =>
      Effect.sync(() => {
        keys = next
      })
  })
})

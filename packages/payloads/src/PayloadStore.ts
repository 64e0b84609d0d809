/**
 * The interface of payload stores: byte objects by key, written once and never changed.
 *
 * ```
 *   put ----> durable when it returns ----> get, any number of times ----> remove
 * ```
 *
 * A key is never put twice with different bytes, so callers may cache the objects that they read. Keys are paths: `list` returns the keys
 * below one. A new backend implements this service and passes `payloadStoreSuite` from `@stint/payloads-testing`.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { PayloadError } from "./PayloadError.ts"

/**
 * The key of an object: up to eight segments of 1 to 128 letters, digits, `.`, `-` or `_`, each starting with a letter or a digit. It is safe as a
 * file path, in a URL and as an S3 object key.
 */
export const PayloadKey = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(\/[A-Za-z0-9][A-Za-z0-9._-]{0,127}){0,7}$/, {
    message: "a payload key is a path of letters, digits, ., - and _"
  })
).pipe(Schema.brand("PayloadKey"))
export type PayloadKey = typeof PayloadKey.Type

export class PayloadStore extends Context.Service<PayloadStore, {
  /** Names the store in messages: `the folder /srv/payloads`. */
  readonly description: string

  /** Stores bytes under a key. They are durable when this returns. Repeating a put with the same bytes changes nothing. */
  readonly put: (key: PayloadKey, bytes: Uint8Array) => Effect.Effect<void, PayloadError>

  /**
   * Reads an object of exactly `size` bytes. Fails with `Missing` if the object does not exist, and with `Damaged` if its size differs.
   * Never reads more than `size` bytes.
   */
  readonly get: (key: PayloadKey, size: number) => Effect.Effect<Uint8Array, PayloadError>

  /** Removes an object. Succeeds if it does not exist. */
  readonly remove: (key: PayloadKey) => Effect.Effect<void, PayloadError>

  /** The keys of all objects below a path, in no particular order. May or may not include objects that are put or removed during the call. */
  readonly list: (path: PayloadKey) => Stream.Stream<PayloadKey, PayloadError>
}>()("@stint/payloads/PayloadStore") {}

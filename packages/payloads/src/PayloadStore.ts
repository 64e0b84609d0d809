/**
 * The seam under large payloads: objects of bytes by key, written once and never changed.
 *
 * ```
 *   put ----> durable when it returns ----> get, any number of times ----> remove
 * ```
 *
 * A key is never put twice with different bytes, so that whoever holds a key may keep what it read. Keys are paths: `list` finds what is
 * below one. A new backend implements this service and passes `suite` of `@stint/payload-store/testing`.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { PayloadError } from "./PayloadError.ts"

/**
 * The name of an object: up to eight segments of 1 to 128 letters, digits, `.`, `-` or `_`, each beginning with a letter or a digit, so that it is safe
 * as a path, as a part of an address and in the name of an S3 object alike.
 */
export const PayloadKey = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(\/[A-Za-z0-9][A-Za-z0-9._-]{0,127}){0,7}$/, {
    message: "a payload key is a path of letters, digits, ., - and _"
  })
).pipe(Schema.brand("PayloadKey"))
export type PayloadKey = typeof PayloadKey.Type

export class PayloadStore extends Context.Service<PayloadStore, {
  /** The store in words, for messages: `the folder /srv/payloads`. */
  readonly description: string

  /** Keeps bytes under a key. When this returns they survive what the store survives. The same bytes again are the same object. */
  readonly put: (key: PayloadKey, bytes: Uint8Array) => Effect.Effect<void, PayloadError>

  /**
   * The bytes of an object that has `size` of them. Fails with `Missing`, and with `Damaged` where the object has another size: no more is ever read.
   */
  readonly get: (key: PayloadKey, size: number) => Effect.Effect<Uint8Array, PayloadError>

  /** Removes an object. One that is not there is no failure. */
  readonly remove: (key: PayloadKey) => Effect.Effect<void, PayloadError>

  /** The keys of all objects below a path, in no order. What is put or removed meanwhile may be in it or not. */
  readonly list: (path: PayloadKey) => Stream.Stream<PayloadKey, PayloadError>
}>()("@stint/payloads/PayloadStore") {}

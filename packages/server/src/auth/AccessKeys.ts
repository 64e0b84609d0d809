/**
 * Keys: whom a request speaks for.
 *
 * ```
 *   the platform's key    given by the operator            opens the jobs API and the control API
 *   worker keys           derived from it, one each        open the worker API of their endpoint
 *   keys that were made   kept by KeyStore                 open what their scopes and endpoints say
 * ```
 *
 * A worker key is an HMAC-SHA-256 under the platform's key, so that it needs no storage and is the same after a restart
 * (docs/decisions/0004-worker-keys-are-derived.md). A new platform key therefore changes every worker key as well.
 *
 * Keys that were made are compared by their SHA-256 digests, the others as they are, all in constant time: how long a key is may be learned
 * from it, and nothing else. Nothing is read from a disk or a database for it.
 */
import type { KeyId, KeyScope } from "@stint/contract/AccessKey"
import type { RateLimit } from "@stint/contract/RateLimit"
import { type KeyRecord, KeyStore } from "@stint/store/KeyStore"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createHmac, timingSafeEqual } from "node:crypto"
import * as KeySecret from "./KeySecret.ts"

/** Whom a valid key speaks for, and what it opens. */
export interface Caller {
  /** The key's id. The platform's own key has one that no other has. */
  readonly id: string
  /** What people call it, for messages. */
  readonly name: string
  readonly scopes: ReadonlyArray<KeyScope>
  readonly endpoints: "all" | ReadonlyArray<string>
  readonly rateLimit: RateLimit | undefined
}

/** What a presented key turned out to be. */
export type KeyLookup =
  | { readonly _tag: "Caller"; readonly caller: Caller }
  | {
    readonly _tag: "Ended"
    readonly key: KeyRecord
    readonly why: "revoked" | "expired" | "rotated"
    /** Since when, in milliseconds since 1970. */
    readonly at: number
  }
  | { readonly _tag: "Unknown" }

export class AccessKeys extends Context.Service<AccessKeys, {
  /** What a presented key is. Worker keys that were derived are unknown to it: see `isWorkerKeyOf`. */
  readonly identify: (key: Redacted.Redacted) => Effect.Effect<KeyLookup>
  /** Whether a presented key is the derived worker key of that endpoint. */
  readonly isWorkerKeyOf: (endpoint: string, key: Redacted.Redacted) => boolean
  /** Whether a key has the shape of a derived worker key: to say which kind of key was used in the wrong place. */
  readonly hasWorkerKeyPrefix: (key: Redacted.Redacted) => boolean
  /** The derived worker key of an endpoint. */
  readonly workerKey: (endpoint: string) => Redacted.Redacted
}>()("@stint/server/AccessKeys") {}

/** What the platform's own key opens. */
const platform: KeyLookup = {
  _tag: "Caller",
  caller: { id: "platform", name: "the platform's API key", scopes: ["admin"], endpoints: "all", rateLimit: undefined }
}

const unknown: KeyLookup = { _tag: "Unknown" }

const WORKER_PREFIX = "stint_worker_"

/**
 * The most derived worker keys that are kept at hand: deriving one costs more than all else that is done about a worker's key. Who asks for
 * endpoints that are not there can only make others be derived anew.
 */
const MAX_DERIVED_KEYS = 1_000

/** Compares in constant time. */
const isSame = (presented: string, bytes: Buffer): boolean => {
  const other = Buffer.from(presented)
  return other.length === bytes.length && timingSafeEqual(other, bytes)
}

/** How often it is noted that a key was used: seldom enough to cost nothing, often enough to find the keys that nobody uses. */
const LAST_USED_INTERVAL_MILLIS = 60_000

/** Keys from the platform's own key and those that were made. */
export const layer = (platformKey: Redacted.Redacted): Layer.Layer<AccessKeys, never, KeyStore> =>
  Layer.effect(
    AccessKeys,
    Effect.gen(function*() {
      const store = yield* KeyStore
      const clock = yield* Clock.Clock
      const scope = yield* Effect.scope
      const platformBytes = Buffer.from(Redacted.value(platformKey))
      const workerKeyOf = (endpoint: string) =>
        WORKER_PREFIX + createHmac("sha256", Redacted.value(platformKey)).update(`worker:${endpoint}`).digest("base64url")

      const derived = new Map<string, Buffer>()
      const workerBytes = (endpoint: string): Buffer => {
        const known = derived.get(endpoint)
        if (known !== undefined) return known
        if (derived.size >= MAX_DERIVED_KEYS) derived.clear()
        const bytes = Buffer.from(workerKeyOf(endpoint))
        derived.set(endpoint, bytes)
        return bytes
      }

      const lastUsedWrites = new Map<KeyId, number>()
      const recordUse = (id: KeyId, now: number) =>
        store.update(id, (key) => ({ ...key, lastUsedAt: Math.max(now, key.lastUsedAt ?? 0) })).pipe(
          Effect.catchCause((cause) => Effect.logDebug(`It could not be noted that the key ${id} was used.`, cause)),
          Effect.forkIn(scope)
        )

      const lookUpStoredKey = Effect.fnUntraced(function*(id: string, digest: Buffer): Effect.fn.Return<KeyLookup> {
        const key = yield* store.get(id)
        if (key === undefined) return unknown
        const now = clock.currentTimeMillisUnsafe()
        const found = KeySecret.secretStatus(key, digest, now)
        if (found._tag === "Foreign") return unknown
        if (found._tag === "Ended") return { ...found, key }
        if (now - Math.max(lastUsedWrites.get(key.id) ?? 0, key.lastUsedAt ?? 0) >= LAST_USED_INTERVAL_MILLIS) {
          lastUsedWrites.set(key.id, now)
          yield* recordUse(key.id, now)
        }
        const { endpoints, name, rateLimit, scopes } = key
        return { _tag: "Caller", caller: { id: key.id, name: `the key "${name}"`, scopes, endpoints, rateLimit } }
      })

      return AccessKeys.of({
        identify: (key) =>
          Effect.suspend((): Effect.Effect<KeyLookup> => {
            const text = Redacted.value(key)
            if (isSame(text, platformBytes)) return Effect.succeed(platform)
            const id = KeySecret.idIn(text)
            return id === undefined ? Effect.succeed(unknown) : lookUpStoredKey(id, KeySecret.digestOf(text))
          }),
        isWorkerKeyOf: (endpoint, key) => isSame(Redacted.value(key), workerBytes(endpoint)),
        hasWorkerKeyPrefix: (key) => Redacted.value(key).startsWith(WORKER_PREFIX),
        workerKey: (endpoint) => Redacted.make(workerKeyOf(endpoint))
      })
    })
  )

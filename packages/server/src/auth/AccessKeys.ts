/**
 * Access keys: determines which caller a key belongs to.
 *
 * ```
 *   the platform's key    known by its digest              valid for the jobs API and the control API
 *   worker keys           derived from a secret            valid for the worker API of their endpoint, or of one of its workers
 *   lease tokens          derived from the same secret    prove that a worker took a job (docs/decisions/0024-worker-identity.md)
 *   the session key       derived from the same secret    encrypts the cookies of the web console (docs/decisions/0037-web-console.md)
 *   created keys          stored in KeyStore               valid for their scopes and endpoints
 * ```
 *
 * A worker key is an HMAC-SHA-256 under the worker secret, so it needs no storage of its own and survives a restart
 * (docs/decisions/0004-worker-keys-are-derived.md). Changing the worker secret therefore changes every worker key.
 *
 * The platform's key and created keys are compared by their SHA-256 digests. Worker keys, and the platform's key once a request has
 * presented it, are compared by their text, which is faster. Both comparisons take constant time, reveal nothing but the length of a key,
 * and access neither the disk nor a database.
 */
import type { KeyId, KeyScope } from "@stint/contract/AccessKey"
import type { KeyLimits } from "@stint/contract/Quota"
import type { RateLimit } from "@stint/contract/RateLimit"
import { type KeyRecord, KeyStore } from "@stint/store/KeyStore"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto"
import * as KeySecret from "./KeySecret.ts"

/** The holder of a valid key, and what the key allows. */
export interface Caller {
  /** The key's id. The platform's own key has the id `platform`. */
  readonly id: string
  /** The display name, for messages. */
  readonly name: string
  readonly scopes: ReadonlyArray<KeyScope>
  readonly endpoints: "all" | ReadonlyArray<string>
  readonly rateLimit: RateLimit | undefined
  readonly limits?: KeyLimits | undefined
}

/** The result of looking up a presented key. */
export type KeyLookup =
  | { readonly _tag: "Caller"; readonly caller: Caller }
  | {
    readonly _tag: "Inactive"
    readonly key: KeyRecord
    readonly why: "revoked" | "expired" | "rotated"
    /** When the key stopped working, in milliseconds since 1970. */
    readonly at: number
  }
  | { readonly _tag: "Unknown" }

/** What a worker key proves: that the caller is this worker (`worker`), or some worker of the endpoint (`endpoint`). */
export type WorkerIdentity = "worker" | "endpoint"

/** One take of a job. */
export interface Take {
  readonly endpoint: string
  readonly worker: string
  readonly job: string
  readonly attempt: number
}

export class AccessKeys extends Context.Service<AccessKeys, {
  /** Looks up a presented key. Returns `Unknown` for derived worker keys: see `identifyWorker`. */
  readonly identify: (key: Redacted.Redacted) => Effect.Effect<KeyLookup>
  /** What a presented key proves about a worker; undefined when it is not a derived worker key of this worker or its endpoint. */
  readonly identifyWorker: (endpoint: string, worker: string, key: Redacted.Redacted) => WorkerIdentity | undefined
  /** Whether a key has the format of a derived worker key. Used in error messages when a worker key is used on another API. */
  readonly hasWorkerKeyPrefix: (key: Redacted.Redacted) => boolean
  /** The derived worker key for an endpoint, or for one of its workers. */
  readonly workerKey: (endpoint: string, worker?: string) => Redacted.Redacted
  /** The token that the platform gives to the worker that takes a job: `ATTEMPT.MAC`. */
  readonly leaseToken: (take: Take) => string
  /** The attempt that a presented lease token belongs to; undefined when the token does not belong to this job and worker. */
  readonly attemptOfLeaseToken: (token: string, take: Omit<Take, "attempt">) => number | undefined
  /** The AES-256 key of the console's sessions. The same on every node with the same worker secret, and after a restart. */
  readonly sessionKey: Redacted.Redacted<Uint8Array>
}>()("@stint/server/AccessKeys") {}

/** The secrets of a platform. */
export interface PlatformSecrets {
  /**
   * The SHA-256 of the platform's key. Read for every lookup, because the key can be rotated while the platform runs; it must return the
   * same buffer until then.
   */
  readonly adminDigest: () => Buffer
  /** The secret that worker keys, lease tokens and the key of the console's sessions are derived from. */
  readonly workerSecret: Redacted.Redacted
}

/** Both secrets from one key: for tests, and for servers that live as long as their process. */
export const secretsOf = (key: Redacted.Redacted): PlatformSecrets => {
  const digest = KeySecret.digestOf(Redacted.value(key))
  return { adminDigest: () => digest, workerSecret: key }
}

/** The lookup result for the platform's own key. */
const platform: KeyLookup = {
  _tag: "Caller",
  caller: { id: "platform", name: "the platform's API key", scopes: ["admin"], endpoints: "all", rateLimit: undefined }
}

const unknown: KeyLookup = { _tag: "Unknown" }

const WORKER_PREFIX = "stint_worker_"

/** Another version of the sessions needs another text, so that it does not read these. */
const SESSION_INFO = "sessions of the console, version 1"

/** 22 characters of base64url: 132 bits, which cannot be guessed within the life of a lease. */
const LEASE_MAC_LENGTH = 22

const LEASE_TOKEN = /^(\d{1,9})\.[A-Za-z0-9_-]{22}$/

/**
 * The most recently used worker keys are cached: at least this many, and at most twice as many. Deriving a key costs more than everything
 * else in a worker's authentication, and a worker sends a heartbeat every few seconds, so the keys of all workers must fit. Requests for
 * endpoints that do not exist can only evict cached keys. A key takes about 300 bytes.
 */
const CACHED_KEYS = 10_000

/** Like {@link CACHED_KEYS}, for lease tokens: the result of a short job then takes no second derivation. A token takes about 250 bytes. */
const CACHED_TOKENS = 1_000

/**
 * Caches the results of a function: of at least the last `size` texts, and at most twice as many. There are two maps, so that a full cache does not
 * forget the texts in use.
 */
const memoize = <A>(size: number, compute: (text: string) => A): (text: string) => A => {
  let recent = new Map<string, A>()
  let earlier = new Map<string, A>()
  return (text) => {
    const known = recent.get(text)
    if (known !== undefined) return known
    const result = earlier.get(text) ?? compute(text)
    if (recent.size >= size) {
      earlier = recent
      recent = new Map()
    }
    recent.set(text, result)
    return result
  }
}

/** The bytes of a text, for the cache. `Buffer.from` would return a slice of a pool, which would keep all 64 KiB of the pool in memory. */
const ownBytes = (text: string): Buffer => {
  const bytes = Buffer.alloc(Buffer.byteLength(text))
  bytes.write(text)
  return bytes
}

/** Compares in constant time. */
const isSame = (presented: Buffer, bytes: Buffer): boolean =>
  presented.length === bytes.length && timingSafeEqual(presented, bytes)

/** Minimum interval between updates of a key's last use: long enough that the writes cost nothing, and short enough to find unused keys. */
const LAST_USED_INTERVAL_MILLIS = 60_000

/** Looks up the platform's own key and the keys in KeyStore. */
export const layer = ({ adminDigest, workerSecret }: PlatformSecrets): Layer.Layer<AccessKeys, never, KeyStore> =>
  Layer.effect(
    AccessKeys,
    Effect.gen(function*() {
      const store = yield* KeyStore
      const clock = yield* Clock.Clock
      const scope = yield* Effect.scope
      const derive = (text: string) => createHmac("sha256", Redacted.value(workerSecret)).update(text).digest("base64url")
      const workerText = (endpoint: string, worker: string | undefined) =>
        worker === undefined ? `worker:${endpoint}` : `worker:${endpoint}\n${worker}`

      const leaseMac = memoize(CACHED_TOKENS, (text) => derive(text).slice(0, LEASE_MAC_LENGTH))
      // No other derived text begins with `lease:`, and only the last part can contain a newline.
      const leaseToken = ({ attempt, endpoint, job, worker }: Take) =>
        `${attempt}.${leaseMac(`lease:${endpoint}\n${attempt}\n${job.length}\n${job}\n${worker}`)}`

      /** The platform's key, once a request has presented it. */
      let presented: { readonly digest: Buffer; readonly text: Buffer } | undefined
      const isPlatformKey = (text: string): boolean => {
        const digest = adminDigest()
        if (presented?.digest === digest) return isSame(Buffer.from(text), presented.text)
        if (!timingSafeEqual(KeySecret.digestOf(text), digest)) return false
        presented = { digest, text: ownBytes(text) }
        return true
      }

      const workerBytesOf = memoize(CACHED_KEYS, (text) => ownBytes(WORKER_PREFIX + derive(text)))
      const workerBytes = (endpoint: string, worker?: string): Buffer => workerBytesOf(workerText(endpoint, worker))

      const lastUsedWrites = new Map<KeyId, number>()
      const recordUse = (id: KeyId, now: number) =>
        store.update(id, (key) => ({ ...key, lastUsedAt: Math.max(now, key.lastUsedAt ?? 0) })).pipe(
          Effect.catchCause((cause) => Effect.logDebug(`Could not record the last use of key ${id}.`, cause)),
          Effect.forkIn(scope)
        )

      const lookUpStoredKey = Effect.fnUntraced(function*(id: string, digest: Buffer): Effect.fn.Return<KeyLookup> {
        const key = yield* store.get(id)
        if (key === undefined) return unknown
        const now = clock.currentTimeMillisUnsafe()
        const found = KeySecret.secretStatus(key, digest, now)
        if (found._tag === "NoMatch") return unknown
        if (found._tag === "Inactive") return { ...found, key }
        if (now - Math.max(lastUsedWrites.get(key.id) ?? 0, key.lastUsedAt ?? 0) >= LAST_USED_INTERVAL_MILLIS) {
          lastUsedWrites.set(key.id, now)
          yield* recordUse(key.id, now)
        }
        const { endpoints, limits, name, rateLimit, scopes } = key
        return { _tag: "Caller", caller: { id: key.id, name: `the key "${name}"`, scopes, endpoints, rateLimit, limits } }
      })

      return AccessKeys.of({
        identify: (key) => {
          const text = Redacted.value(key)
          if (isPlatformKey(text)) return Effect.succeed(platform)
          const id = KeySecret.idIn(text)
          return id === undefined ? Effect.succeed(unknown) : lookUpStoredKey(id, KeySecret.digestOf(text))
        },
        identifyWorker: (endpoint, worker, key) => {
          const bytes = Buffer.from(Redacted.value(key))
          // Checks the endpoint's key first, because workers that use it have no cached keys of their own.
          if (isSame(bytes, workerBytes(endpoint))) return "endpoint"
          return isSame(bytes, workerBytes(endpoint, worker)) ? "worker" : undefined
        },
        hasWorkerKeyPrefix: (key) => Redacted.value(key).startsWith(WORKER_PREFIX),
        workerKey: (endpoint, worker) => Redacted.make(WORKER_PREFIX + derive(workerText(endpoint, worker))),
        leaseToken,
        attemptOfLeaseToken: (token, take) => {
          const attempt = Number(LEASE_TOKEN.exec(token)?.[1])
          return isSame(Buffer.from(token), Buffer.from(leaseToken({ ...take, attempt }))) ? attempt : undefined
        },
        sessionKey: Redacted.make(new Uint8Array(hkdfSync("sha256", Redacted.value(workerSecret), "", SESSION_INFO, 32)))
      })
    })
  )

/**
 * Keys: who may call what.
 *
 * There is one admin key, given by the operator; it opens the jobs API and the control API. Each endpoint has a worker key, derived from
 * the admin key by HMAC-SHA-256, so that it needs no storage and is the same after a restart; it opens the worker API of that endpoint and
 * nothing else. A new admin key therefore changes every worker key as well.
 *
 * Keys are compared by their SHA-256 digests in constant time.
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createHmac, hash, timingSafeEqual } from "node:crypto"

export class AccessKeys extends Context.Service<AccessKeys, {
  /** Whether a presented key is the admin key. */
  readonly isAdmin: (key: Redacted.Redacted) => boolean
  /** Whether a presented key is the worker key of that endpoint. */
  readonly isWorkerOf: (endpoint: string, key: Redacted.Redacted) => boolean
  /** Whether a key has the shape of a worker key: to say which kind of key was used in the wrong place. */
  readonly looksLikeWorkerKey: (key: Redacted.Redacted) => boolean
  /** The worker key of an endpoint. */
  readonly workerKey: (endpoint: string) => Redacted.Redacted
}>()("@stint/server/AccessKeys") {}

const WORKER_PREFIX = "stint_worker_"

const digest = (text: string): Buffer => hash("sha256", text, "buffer")

/** Keys from the operator's admin key. */
export const layer = (adminKey: Redacted.Redacted): Layer.Layer<AccessKeys> =>
  Layer.sync(AccessKeys, () => {
    const adminDigest = digest(Redacted.value(adminKey))
    const workerKeyOf = (endpoint: string) =>
      WORKER_PREFIX + createHmac("sha256", Redacted.value(adminKey)).update(`worker:${endpoint}`).digest("base64url")
    return AccessKeys.of({
      isAdmin: (key) => timingSafeEqual(digest(Redacted.value(key)), adminDigest),
      isWorkerOf: (endpoint, key) => timingSafeEqual(digest(Redacted.value(key)), digest(workerKeyOf(endpoint))),
      looksLikeWorkerKey: (key) => Redacted.value(key).startsWith(WORKER_PREFIX),
      workerKey: (endpoint) => Redacted.make(workerKeyOf(endpoint))
    })
  })

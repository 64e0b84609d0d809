/**
 * The control API for access keys: create, list, change, rotate, revoke.
 */
import type { AccessKey, KeyEndpoints, KeyId } from "@stint/contract/AccessKey"
import {
  DEFAULT_ROTATION_GRACE_MILLIS,
  isForEveryEndpoint,
  KeyPatch,
  KeyRevocation,
  KeyRotation,
  KeySpec
} from "@stint/contract/AccessKey"
import { Api } from "@stint/contract/Api"
import { CurrentOperator } from "@stint/contract/Authorization"
import { Conflict, InvalidRequest, KeyNotFound, problemMembers } from "@stint/contract/Problem"
import { type KeyRecord, KeyStore } from "@stint/store/KeyStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { HttpEffect, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Struct from "effect/Struct"
import { auditTarget } from "../audit/AuditMiddleware.ts"
import * as KeySecret from "../auth/KeySecret.ts"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { endpointFinder, mapStoreErrors } from "../http/QueueProblems.ts"
import { decoder, parseJson, readText } from "../http/RequestBody.ts"

/**
 * How long a revoked or expired key stays in the store, so that callers who still use it get a specific error. After this time, creating
 * another key deletes it.
 */
const ENDED_KEY_RETENTION_MILLIS = 30 * 86_400_000

const specHint = "A key is a JSON object like {\"name\": \"ci\", \"scopes\": [\"jobs\"], \"endpoints\": [\"hello\"]}."
const patchHint =
  "Send the members to change, for example {\"name\": \"ci\"} or {\"rateLimit\": {\"limit\": 100, \"perMs\": 10000}}; null removes " +
  "a limit or an expiry."
const rotationHint = "Send an empty body, or how long the current secret stays valid: {\"graceMs\": 3600000}."

const revocationHint = "Send an empty body, or {\"withIssued\": true} to revoke the keys that were issued with this key, too."

const strict = { unknown: "error" } as const
const decodeSpec = decoder(KeySpec, specHint, strict)
const decodePatch = decoder(KeyPatch, patchHint, strict)
const decodeRotation = decoder(KeyRotation, rotationHint, strict)
const decodeRevocation = decoder(KeyRevocation, revocationHint, strict)

const statusOf = (key: KeyRecord, now: number): AccessKey["status"] => {
  if (key.revokedAt !== undefined) return "REVOKED"
  return key.expiresAt !== undefined && key.expiresAt <= now ? "EXPIRED" : "ACTIVE"
}

/** A key without its digests. */
const viewOf = (key: KeyRecord, now: number): AccessKey => {
  const previousUntil = Math.max(...key.previous.map(({ until }) => until))
  const status = statusOf(key, now)
  return {
    ...Struct.omit(key, ["digest", "previous"]),
    status,
    ...(status === "ACTIVE" && previousUntil > now ? { previousUntil } : {})
  }
}

/** Responses that contain a secret must not be cached. */
const noStore = HttpEffect.appendPreResponseHandler((_, response) =>
  Effect.succeed(HttpServerResponse.setHeader(response, "cache-control", "no-store"))
)

const invalid = (path: string, message: string, hint: string) =>
  new InvalidRequest({ ...problemMembers(`${path}: ${message}`, hint), errors: [{ path: [path], message }] })

const keyMissing = (id: string) =>
  new KeyNotFound(problemMembers(
    `There is no key "${excerpt(id)}".`,
    "Use the key's id, the 16 characters after `stint_` in its secret: `stint keys list`. Revoked and expired keys are deleted after 30 days."
  ))

const inactive = (key: KeyRecord, status: "REVOKED" | "EXPIRED") =>
  new Conflict(problemMembers(
    `The key "${key.name}" (${key.id}) is ${status}.`,
    status === "REVOKED"
      ? "A revoked key cannot be restored. Create another: `stint keys create NAME`."
      : "Set a later expiry first (PATCH /api/v1/keys/{key} with expiresAt), or create another: `stint keys create NAME`."
  ))

/** The id of the platform's own key, whose holder may know every secret. */
const PLATFORM = "platform"

/** The keys whose holders can know the new secret of a key that `issuer` has rotated. */
const issuersAfterRotation = (key: KeyRecord, issuer: string, graceMs: number): ReadonlyArray<string> => {
  const before = key.issuedBy ?? []
  // The secrets that earlier issuers know become invalid only when the operator rotates the key without a grace period.
  if (issuer === PLATFORM) return graceMs === 0 ? [] : before
  return issuer === key.id || before.includes(issuer) ? before : [...before, issuer]
}

/** The active keys that were issued with a key, directly or through others. Cycles are possible, because keys can rotate each other. */
const issuedWith = (id: KeyId, keys: ReadonlyArray<KeyRecord>, now: number): ReadonlyArray<KeyRecord> => {
  const found = new Set<string>([id])
  for (let size = 0; size < found.size;) {
    size = found.size
    for (const key of keys) if (key.issuedBy?.some((one) => found.has(one)) === true) found.add(key.id)
  }
  return keys.filter((key) => key.id !== id && found.has(key.id) && statusOf(key, now) === "ACTIVE")
}

/** When a key was revoked or expires; undefined if neither applies. */
const endOf = ({ expiresAt, revokedAt }: KeyRecord): number | undefined => revokedAt ?? expiresAt

export const layer = HttpApiBuilder.group(
  Api,
  "keys",
  Effect.fnUntraced(function*(handlers) {
    const store = yield* KeyStore
    const limits = yield* Limits
    const findEndpoint = yield* endpointFinder

    const read = (request: HttpServerRequest.HttpServerRequest, hint: string, whenEmpty?: string) =>
      Effect.flatMap(
        readText(request, limits.controlBytes, "Key settings are small. Check that the body contains only settings."),
        (text) => parseJson(whenEmpty !== undefined && text.trim() === "" ? whenEmpty : text, hint)
      )

    const find = Effect.fnUntraced(function*(id: string) {
      const key = yield* store.get(id)
      return key ?? (yield* keyMissing(id))
    })

    /** Rejects unknown endpoints: with a misspelt name, the key would be valid for nothing, or for an endpoint that is created later. */
    const checkEndpoints = (endpoints: KeyEndpoints | undefined) =>
      endpoints === undefined || endpoints === "all"
        ? Effect.void
        : Effect.forEach(endpoints, (id) => findEndpoint(id, true), { discard: true })

    const checkExpiry = (expiresAt: number | null | undefined, now: number, hint: string) =>
      typeof expiresAt === "number" && expiresAt <= now
        ? Effect.fail(invalid("expiresAt", `${new Date(expiresAt).toISOString()} is not in the future`, hint))
        : Effect.void

    /** A changed key must follow the same rules as a new key. */
    const checkScopes = ({ scopes }: KeyRecord, patch: KeyPatch) => {
      const isForAll = isForEveryEndpoint(patch.scopes ?? scopes)
      if (isForAll && patch.endpoints !== undefined && patch.endpoints !== "all") {
        return Effect.fail(invalid("endpoints", "a key with the scope admin or deploy is valid for every endpoint", patchHint))
      }
      if (!isForAll && isForEveryEndpoint(scopes) && patch.endpoints === undefined) {
        const message = "list the endpoints of a key without the scopes admin and deploy, or send \"all\""
        return Effect.fail(invalid("endpoints", message, patchHint))
      }
      return Effect.void
    }

    const deleteExpired = Effect.fnUntraced(function*(now: number) {
      for (const key of yield* store.list) {
        if ((endOf(key) ?? now) < now - ENDED_KEY_RETENTION_MILLIS) yield* store.remove(key.id)
      }
    })

    const change = Effect.fnUntraced(function*(id: string, edit: (key: KeyRecord) => KeyRecord) {
      const key = yield* find(id)
      return (yield* mapStoreErrors(store.update(key.id, edit))) ?? (yield* keyMissing(id))
    })

    return handlers
      .handle(
        "listKeys",
        Effect.fnUntraced(function*() {
          const now = yield* Clock.currentTimeMillis
          return { keys: (yield* mapStoreErrors(store.list)).map((key) => viewOf(key, now)) }
        })
      )
      .handleRaw(
        "createKey",
        Effect.fnUntraced(function*({ request }) {
          const { endpoints, expiresAt, limits: quotas, name, rateLimit, scopes } = yield* decodeSpec(
            yield* read(request, specHint)
          )
          const now = yield* Clock.currentTimeMillis
          yield* checkExpiry(expiresAt, now, specHint)
          yield* checkEndpoints(endpoints)
          yield* mapStoreErrors(deleteExpired(now))
          const id = KeySecret.newId()
          const { key: issuer } = yield* CurrentOperator
          const { secret, ...stored } = KeySecret.mint(id)
          const key: KeyRecord = {
            id,
            name,
            scopes: scopes ?? ["jobs"],
            endpoints: endpoints ?? "all",
            createdAt: now,
            ...stored,
            previous: [],
            ...(expiresAt === undefined ? {} : { expiresAt }),
            ...(rateLimit === undefined ? {} : { rateLimit }),
            ...(quotas === undefined ? {} : { limits: quotas }),
            ...(issuer === PLATFORM ? {} : { issuedBy: [issuer] })
          }
          yield* mapStoreErrors(store.put(key))
          yield* auditTarget("key", id)
          yield* noStore
          return { key: viewOf(key, now), secret }
        })
      )
      .handle(
        "getKey",
        Effect.fnUntraced(function*({ params }) {
          return viewOf(yield* find(params.key), yield* Clock.currentTimeMillis)
        })
      )
      .handleRaw(
        "patchKey",
        Effect.fnUntraced(function*({ params, request }) {
          const patch = yield* decodePatch(yield* read(request, patchHint))
          const key = yield* find(params.key)
          const now = yield* Clock.currentTimeMillis
          if (key.revokedAt !== undefined) return yield* inactive(key, "REVOKED")
          yield* checkScopes(key, patch)
          yield* checkExpiry(patch.expiresAt, now, patchHint)
          yield* checkEndpoints(patch.endpoints)
          const changed = yield* change(key.id, ({ expiresAt, limits: quotas, rateLimit, ...rest }) => {
            const until = patch.expiresAt === undefined ? expiresAt : patch.expiresAt
            const limit = patch.rateLimit === undefined ? rateLimit : patch.rateLimit
            const quota = patch.limits === undefined ? quotas : patch.limits
            return {
              ...rest,
              name: patch.name ?? rest.name,
              scopes: patch.scopes ?? rest.scopes,
              endpoints: isForEveryEndpoint(patch.scopes ?? []) ? "all" : patch.endpoints ?? rest.endpoints,
              ...(typeof until === "number" ? { expiresAt: until } : {}),
              ...(limit === undefined || limit === null ? {} : { rateLimit: limit }),
              ...(quota === undefined || quota === null ? {} : { limits: quota })
            }
          })
          return viewOf(changed, now)
        })
      )
      .handleRaw(
        "rotateKey",
        Effect.fnUntraced(function*({ params, request }) {
          const { graceMs } = yield* decodeRotation(yield* read(request, rotationHint, "{}"))
          const key = yield* find(params.key)
          const now = yield* Clock.currentTimeMillis
          const status = statusOf(key, now)
          if (status !== "ACTIVE") return yield* inactive(key, status)
          const minted = KeySecret.mint(key.id)
          const grace = graceMs ?? DEFAULT_ROTATION_GRACE_MILLIS
          const { key: issuer } = yield* CurrentOperator
          const changed = yield* change(key.id, (before) => {
            const { issuedBy: _, ...rotated } = KeySecret.rotated(before, minted, grace, now)
            const issuers = issuersAfterRotation(before, issuer, grace)
            return issuers.length === 0 ? rotated : { ...rotated, issuedBy: issuers }
          })
          yield* noStore
          return { key: viewOf(changed, now), secret: minted.secret }
        })
      )
      .handleRaw(
        "revokeKey",
        Effect.fnUntraced(function*({ params, request }) {
          const { withIssued } = yield* decodeRevocation(yield* read(request, revocationHint, "{}"))
          const now = yield* Clock.currentTimeMillis
          const revoke = (key: KeyRecord) => ({ ...key, revokedAt: key.revokedAt ?? now })
          const revoked = yield* change(params.key, revoke)
          // Listed after the revocation, so that a key that was issued just before it is in the list.
          const issued = issuedWith(revoked.id, yield* mapStoreErrors(store.list), now)
          const after = withIssued === true ? yield* Effect.forEach(issued, ({ id }) => change(id, revoke)) : issued
          return { ...viewOf(revoked, now), issued: after.map((key) => viewOf(key, now)) }
        })
      )
  })
)

/**
 * Keys that operators give out: what they open, for how long, how often.
 *
 * ```
 *   create ---> ACTIVE ---expiresAt---> EXPIRED
 *                 | ^ \
 *          rotate +-+  +---revoke---> REVOKED        for good; whichever comes first
 * ```
 *
 * A rotation gives the key another secret; the one before stays valid for a grace period, so that callers can be moved one by one. The
 * secret is told once, when it is made: the platform keeps only its digest.
 *
 * | scope | opens |
 * |---|---|
 * | `jobs` | the jobs API of the key's endpoints |
 * | `worker` | the worker API of the key's endpoints |
 * | `admin` | the jobs API of every endpoint and the control API, keys included |
 */
import * as Schema from "effect/Schema"
import { EndpointId } from "../Ids.ts"
import { RateLimit } from "./RateLimit.ts"

/** What kind of call a key is for. */
export const KeyScope = Schema.Literals(["jobs", "worker", "admin"])
export type KeyScope = typeof KeyScope.Type

/** The id of a key: 16 hexadecimal digits. It stands in the secret as well, so that a secret leads to its key. */
export const KeyId = Schema.String.check(Schema.isPattern(/^[0-9a-f]{16}$/)).pipe(Schema.brand("KeyId"))
export type KeyId = typeof KeyId.Type

/** What people call a key: 1 to 100 characters that can be printed. Two keys may have the same. */
export const KeyName = Schema.String.check(
  Schema.isPattern(/^(?!\s)[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]{1,100}(?<!\s)$/u, {
    message: "a name is 1 to 100 characters that can be printed, without spaces around it"
  })
)

/** One or more scopes, each once. */
export const KeyScopes = Schema.NonEmptyArray(KeyScope).check(Schema.isUnique())

/** The endpoints that a key opens. `all` includes those that do not exist yet. */
export const KeyEndpoints = Schema.Union([
  Schema.Literal("all"),
  Schema.NonEmptyArray(EndpointId).check(Schema.isMaxLength(1_000), Schema.isUnique())
])
export type KeyEndpoints = typeof KeyEndpoints.Type

const TimestampMillis = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 8_640_000_000_000_000 }))

/** A key as operators see it. It holds nothing that opens anything. */
export const AccessKey = Schema.Struct({
  id: KeyId,
  name: KeyName,
  /** What the drawing above calls it. Only an ACTIVE key opens anything. */
  status: Schema.Literals(["ACTIVE", "EXPIRED", "REVOKED"]),
  scopes: KeyScopes,
  endpoints: KeyEndpoints,
  /** How its present secret begins, for people who have to tell keys apart. */
  prefix: Schema.String,
  /** Milliseconds since 1970, like all times here. */
  createdAt: TimestampMillis,
  /** When the present secret was made, if it is not the first. */
  rotatedAt: Schema.optionalKey(TimestampMillis),
  /** Until when a secret from before the last rotation is still accepted, while one is. */
  previousUntil: Schema.optionalKey(TimestampMillis),
  /** When it ends by itself. Absent: never. */
  expiresAt: Schema.optionalKey(TimestampMillis),
  revokedAt: Schema.optionalKey(TimestampMillis),
  /** When it was last used, to the minute. */
  lastUsedAt: Schema.optionalKey(TimestampMillis),
  /** Beside the endpoints' own limits: a call has to be within both. */
  rateLimit: Schema.optionalKey(RateLimit)
})
export type AccessKey = typeof AccessKey.Type

/** The body of `POST /api/v1/keys`. A misspelt setting would leave a key more open than was meant: the server refuses unknown members. */
export const KeySpec = Schema.Struct({
  name: KeyName,
  /** Default: `["jobs"]`. */
  scopes: Schema.optionalKey(KeyScopes),
  /** Required, so that nobody opens every endpoint by leaving something out; a key with the scope `admin` has `all`. */
  endpoints: Schema.optionalKey(KeyEndpoints),
  /** In the future. Default: it never ends by itself. */
  expiresAt: Schema.optionalKey(TimestampMillis),
  rateLimit: Schema.optionalKey(RateLimit)
}).check(Schema.makeFilter(({ endpoints, scopes }) => {
  const isAdmin = scopes?.includes("admin") === true
  if (isAdmin && endpoints !== undefined && endpoints !== "all") {
    return {
      path: ["endpoints"],
      issue: "a key with the scope admin opens every endpoint: leave endpoints out, or set it to \"all\""
    }
  }
  if (!isAdmin && endpoints === undefined) {
    return { path: ["endpoints"], issue: "name the endpoints that the key opens, or say \"all\"" }
  }
  return undefined
}))
export type KeySpec = typeof KeySpec.Type

/**
 * The body of `PATCH /api/v1/keys/{key}`. What is left out stays; null takes a limit away; unknown members are refused. A key that has the
 * scope `admin` taken away has to be given `endpoints`, for the same reason as a new one.
 */
export const KeyPatch = Schema.Struct({
  name: Schema.optionalKey(KeyName),
  scopes: Schema.optionalKey(KeyScopes),
  endpoints: Schema.optionalKey(KeyEndpoints),
  expiresAt: Schema.optionalKey(Schema.NullOr(TimestampMillis)),
  rateLimit: Schema.optionalKey(Schema.NullOr(RateLimit))
})
export type KeyPatch = typeof KeyPatch.Type

/** How long a secret outlives its rotation where nobody says otherwise: a day, to move all callers. */
export const DEFAULT_ROTATION_GRACE_MILLIS = 86_400_000

/** The body of `POST /api/v1/keys/{key}/rotate`; it may be empty. */
export const KeyRotation = Schema.Struct({
  /** How long the present secret stays valid: 0 (a secret that leaked) to 90 days. Default: 24 hours. */
  graceMs: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 90 * 86_400_000 })))
})
export type KeyRotation = typeof KeyRotation.Type

/** A key with its new secret: the only time that it is told. */
export const NewKey = Schema.Struct({ key: AccessKey, secret: Schema.String })
export type NewKey = typeof NewKey.Type

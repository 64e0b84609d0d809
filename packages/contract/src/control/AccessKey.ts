/**
 * Access keys: their scopes, endpoints, expiry and rate limits (docs/spec/authentication.md#scopes).
 *
 * ```
 *   create ---> ACTIVE ---expiresAt---> EXPIRED
 *                 | ^ \
 *          rotate +-+  +---revoke---> REVOKED        permanently
 * ```
 *
 * A rotation replaces the secret. The previous secret remains valid for a grace period, so that callers can switch one by one. The platform
 * returns a secret once, when it creates it, and stores only its digest.
 *
 * | scope | permits |
 * |---|---|
 * | `jobs:submit` | submitting jobs, requests of the OpenAI route, and creating batches |
 * | `jobs:read` | reading jobs, logs, batches, bulk operations, error groups and health |
 * | `jobs:manage` | cancelling, retrying and purging jobs, bulk operations, resolving error groups, and cancelling batches |
 * | `jobs` | all three |
 * | `worker` | the worker API of the key's endpoints |
 * | `agent` | the calls of `stint agent`, which runs workers of the key's endpoints |
 * | `deploy` | the control API without keys: endpoints, secrets, webhooks, the variables of workers |
 * | `admin` | the jobs API of every endpoint, and the control API, including keys |
 */
import * as Schema from "effect/Schema"
import { EndpointId } from "../Ids.ts"
import { KeyLimits } from "./Quota.ts"
import { RateLimit } from "./RateLimit.ts"

/** The scope of a key. */
export const KeyScope = Schema.Literals(["jobs", "jobs:submit", "jobs:read", "jobs:manage", "worker", "agent", "deploy", "admin"])
export type KeyScope = typeof KeyScope.Type

/** Whether a key with these scopes is valid for every endpoint. */
export const isForEveryEndpoint = (scopes: ReadonlyArray<KeyScope>): boolean =>
  scopes.includes("admin") || scopes.includes("deploy")

/** The scope that an operation of the jobs API requires. `jobs` grants all of them. */
export type JobsScope = "jobs:submit" | "jobs:read" | "jobs:manage"

/**
 * The scope of each operation of the jobs API, batches, logs, runs, bulk operations, error groups and the OpenAI route, by its identifier in the `HttpApi`
 * (docs/spec/authentication.md#scopes-of-the-jobs-api). An operation that is missing here requires `jobs:manage`.
 */
const jobScopes: { readonly [operation: string]: JobsScope } = {
  run: "jobs:submit",
  runsync: "jobs:submit",
  createBatch: "jobs:submit",
  addRequests: "jobs:submit",
  dropRequest: "jobs:submit",
  changeBatch: "jobs:submit",
  finalizeBatch: "jobs:submit",
  sendEvent: "jobs:submit",
  openaiPost: "jobs:submit",
  openaiGet: "jobs:submit",
  openaiDelete: "jobs:submit",
  status: "jobs:read",
  statusByPost: "jobs:read",
  statusSync: "jobs:read",
  statusSyncByPost: "jobs:read",
  stream: "jobs:read",
  streamByPost: "jobs:read",
  events: "jobs:read",
  requests: "jobs:read",
  health: "jobs:read",
  logs: "jobs:read",
  searchLogs: "jobs:read",
  steps: "jobs:read",
  definition: "jobs:read",
  definitions: "jobs:read",
  compareDefinition: "jobs:read",
  listBatches: "jobs:read",
  getBatch: "jobs:read",
  batchRequests: "jobs:read",
  searchJobs: "jobs:read",
  countJobs: "jobs:read",
  listBulk: "jobs:read",
  getBulk: "jobs:read",
  listErrors: "jobs:read",
  getError: "jobs:read",
  schema: "jobs:submit",
  cancel: "jobs:manage",
  retry: "jobs:manage",
  purgeQueue: "jobs:manage",
  cancelBatch: "jobs:manage",
  startBulk: "jobs:manage",
  cancelBulk: "jobs:manage",
  resolveError: "jobs:manage",
  reopenError: "jobs:manage"
}

/** The scope of an operation. */
export const jobScopeOf = (operation: string): JobsScope => jobScopes[operation] ?? "jobs:manage"

/** The id of a key: 16 hexadecimal digits. The secret contains the id, so that the server can look up the key. */
export const KeyId = Schema.String.check(Schema.isPattern(/^[0-9a-f]{16}$/)).pipe(Schema.brand("KeyId"))
export type KeyId = typeof KeyId.Type

/** The display name of a key: 1 to 100 printable characters. Not unique. */
const KeyName = Schema.String.check(
  Schema.isPattern(/^(?!\s)[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]{1,100}(?<!\s)$/u, {
    message: "expected 1 to 100 printable characters without leading or trailing spaces"
  })
)

/** One or more distinct scopes. */
const KeyScopes = Schema.NonEmptyArray(KeyScope).check(Schema.isUnique())

/** The endpoints that a key gives access to. `all` includes future endpoints. */
export const KeyEndpoints = Schema.Union([
  Schema.Literal("all"),
  Schema.NonEmptyArray(EndpointId).check(Schema.isMaxLength(1_000), Schema.isUnique())
])
export type KeyEndpoints = typeof KeyEndpoints.Type

const TimestampMillis = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 8_640_000_000_000_000 }))

/** A key, without its secret. */
export const AccessKey = Schema.Struct({
  id: KeyId,
  name: KeyName,
  /** Only an ACTIVE key is accepted. */
  status: Schema.Literals(["ACTIVE", "EXPIRED", "REVOKED"]),
  scopes: KeyScopes,
  endpoints: KeyEndpoints,
  /** The beginning of the current secret, by which operators can recognize it. */
  prefix: Schema.String,
  /** Milliseconds since 1970, like all times here. */
  createdAt: TimestampMillis,
  /** When the secret was last rotated. */
  rotatedAt: Schema.optionalKey(TimestampMillis),
  /** When the previous secret stops being accepted. Absent if no previous secret is accepted. */
  previousUntil: Schema.optionalKey(TimestampMillis),
  /** When the key expires. Absent if it never expires. */
  expiresAt: Schema.optionalKey(TimestampMillis),
  revokedAt: Schema.optionalKey(TimestampMillis),
  /** When the key was last used, with a resolution of one minute. */
  lastUsedAt: Schema.optionalKey(TimestampMillis),
  /** The key's rate limit, which applies in addition to the endpoints' limits. */
  rateLimit: Schema.optionalKey(RateLimit),
  /** The key's quotas, which apply in addition to the endpoints' limits. */
  limits: Schema.optionalKey(KeyLimits),
  /**
   * The ids of the keys that created or rotated this key. Their holders may know its secret. Absent if only the
   * platform's own key was used.
   */
  issuedBy: Schema.optionalKey(Schema.Array(Schema.String))
})
export type AccessKey = typeof AccessKey.Type

/** The body of `POST /api/v1/keys`. The server rejects unknown members, because a misspelt restriction would have no effect. */
export const KeySpec = Schema.Struct({
  name: KeyName,
  /** Default: `["jobs"]`. */
  scopes: Schema.optionalKey(KeyScopes),
  /**
   * Required, so that omitting it by mistake does not give access to every endpoint. Keys with the scope `admin` or `deploy` always have
   * `all`.
   */
  endpoints: Schema.optionalKey(KeyEndpoints),
  /** A time in the future. Default: the key never expires. */
  expiresAt: Schema.optionalKey(TimestampMillis),
  rateLimit: Schema.optionalKey(RateLimit),
  limits: Schema.optionalKey(KeyLimits)
}).check(Schema.makeFilter(({ endpoints, scopes }) => {
  const isForAll = isForEveryEndpoint(scopes ?? [])
  if (isForAll && endpoints !== undefined && endpoints !== "all") {
    return {
      path: ["endpoints"],
      issue: "a key with the scope admin or deploy is valid for every endpoint: omit endpoints, or set it to \"all\""
    }
  }
  if (!isForAll && endpoints === undefined) {
    return { path: ["endpoints"], issue: "list the endpoints that the key permits, or set it to \"all\"" }
  }
  return undefined
}))
export type KeySpec = typeof KeySpec.Type

/**
 * The body of `PATCH /api/v1/keys/{key}`. Missing members stay unchanged; null removes a limit; unknown members are rejected. Removing the
 * scope `admin` or `deploy` requires `endpoints`, for the same reason as creating a key does.
 */
export const KeyPatch = Schema.Struct({
  name: Schema.optionalKey(KeyName),
  scopes: Schema.optionalKey(KeyScopes),
  endpoints: Schema.optionalKey(KeyEndpoints),
  expiresAt: Schema.optionalKey(Schema.NullOr(TimestampMillis)),
  rateLimit: Schema.optionalKey(Schema.NullOr(RateLimit)),
  /** Replaces all quotas of the key. */
  limits: Schema.optionalKey(Schema.NullOr(KeyLimits))
})
export type KeyPatch = typeof KeyPatch.Type

/** The default grace period of a rotation: one day, which leaves time to switch all callers. */
export const DEFAULT_ROTATION_GRACE_MILLIS = 86_400_000

/** The body of `POST /api/v1/keys/{key}/rotate`, which may be empty. */
export const KeyRotation = Schema.Struct({
  /** How long the current secret remains valid: 0 (for a leaked secret) to 90 days. Default: 24 hours. */
  graceMs: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 90 * 86_400_000 })))
})
export type KeyRotation = typeof KeyRotation.Type

/** The body of `POST /api/v1/keys/{key}/revoke`, which may be empty. */
export const KeyRevocation = Schema.Struct({
  /** Whether the keys that were issued with this key are revoked, too. Default: false. */
  withIssued: Schema.optionalKey(Schema.Boolean)
})
export type KeyRevocation = typeof KeyRevocation.Type

/** A revoked key. */
export const RevokedKey = Schema.Struct({
  ...AccessKey.fields,
  /**
   * The keys that were created or rotated with this key, or with a key in this list, and that were ACTIVE before the call, with their status after
   * it.
   */
  issued: Schema.Array(AccessKey)
})
export type RevokedKey = typeof RevokedKey.Type

/** A key and its new secret, which is never returned again. */
export const NewKey = Schema.Struct({ key: AccessKey, secret: Schema.String })
export type NewKey = typeof NewKey.Type

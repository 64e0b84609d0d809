/**
 * Releases: the immutable, numbered versions of an endpoint (docs/spec/endpoints.md#releases).
 *
 * ```
 *   deploy ---> rolling --a worker of it is ready--> active --the next release is ready--> superseded
 *                  |                                   ^
 *                  |  a worker does not start          | without workers to replace, a release is active at once
 *                  v
 *               failed: the endpoint has the settings of the active release again
 *
 *   deploy as a canary ---> canary --promoted--> rolling, and so on
 *                              `---its workers do not start, or fail more jobs than those of the active release---> failed
 * ```
 *
 * A rollback is a deployment of an earlier release: it has a new number, and the settings and the code of the earlier one.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { EndpointId } from "../Ids.ts"
import { EndpointSpec } from "./Endpoint.ts"

/** The number of a release: 1 for the first release of an endpoint. Never reused while the endpoint exists. */
const ReleaseNumber = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }))

/** Why a release was made, as its author describes it. */
const ReleaseMessage = Schema.String.check(Schema.isMaxLength(1_000))

/** A SHA-256 in hexadecimal. */
const Sha256 = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/))

/** The frozen code of a `handler`. */
export const ReleaseCode = Schema.Struct({
  /** Identifies the code: the hash of the bundle's files. */
  hash: Sha256,
  /** The handler's own source files, without the files of installed packages. Paths are relative to the closest folder that contains all of them. */
  files: Schema.Array(Schema.Struct({ path: Schema.String, hash: Sha256 }))
})
export type ReleaseCode = typeof ReleaseCode.Type

/**
 * A part of the jobs for a new release, until it is promoted (docs/operations/releases.md#canaries).
 */
export const Canary = Schema.Struct({
  /** The share of the jobs, in percent: 1 to 50. */
  percent: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 50 })),
  /** The number of attempts on the canary's workers after which error rates are compared: 1 to 100,000. Default: 50. */
  minJobs: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100_000 })).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed(50))
  ),
  /** By how many percentage points its error rate may exceed the active release's: 0 to 100. Default: 5. */
  maxPoints: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 100 })).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed(5))
  )
})
export type Canary = typeof Canary.Type

/**
 * `canary`: a part of the jobs runs on it, see {@link Canary}. `rolling`: its first worker is starting, and the active release still serves. `active`: the endpoint runs it. `failed`: its worker did not
 * start. `superseded`: a later release replaced it.
 */
const ReleaseState = Schema.Literals(["canary", "rolling", "active", "failed", "superseded"])

/** A release. All members except `state`, `reason` and `activatedAt` never change. */
export const Release = Schema.Struct({
  endpoint: EndpointId,
  number: ReleaseNumber,
  /** Milliseconds since 1970, like all times here. */
  createdAt: Schema.Int,
  /** The key that made the release, or `configuration`. */
  createdBy: Schema.String,
  message: Schema.optionalKey(ReleaseMessage),
  /** The endpoint's settings as they were deployed. */
  settings: EndpointSpec,
  /** Absent when the source is not `handler`, and for a handler that was deployed before releases existed and could not be bundled. */
  code: Schema.optionalKey(ReleaseCode),
  /** The earlier release whose settings and code this one has. */
  rollbackOf: Schema.optionalKey(ReleaseNumber),
  /** It was deployed as a canary. */
  canary: Schema.optionalKey(Canary),
  state: ReleaseState,
  /** Why the release failed. */
  reason: Schema.optionalKey(Schema.String),
  /** When it became active. Absent if it never was. */
  activatedAt: Schema.optionalKey(Schema.Int)
})
export type Release = typeof Release.Type

/** The body of `POST /api/v1/endpoints/{endpoint}/releases`. */
export const ReleaseSpec = Schema.Struct({
  spec: EndpointSpec,
  message: Schema.optionalKey(ReleaseMessage),
  /** The number of the release that the caller compared with, or 0 for an endpoint that does not exist yet. Default: any. */
  expected: Schema.optionalKey(Schema.Int),
  /** Deploys a canary. Ignored if the release replaces no worker, as for a first release or for changes that do not affect workers. */
  canary: Schema.optionalKey(Canary)
})
export type ReleaseSpec = typeof ReleaseSpec.Type

/** The body of `POST /api/v1/endpoints/{endpoint}/rollback`, which may be empty. */
export const RollbackSpec = Schema.Struct({
  /** Default: the newest earlier release that was active. */
  to: Schema.optionalKey(ReleaseNumber),
  message: Schema.optionalKey(ReleaseMessage)
})
export type RollbackSpec = typeof RollbackSpec.Type

const AttemptCounts = Schema.Struct({ jobs: Schema.Int, failed: Schema.Int })

/** How attempts have ended since the canary began or the platform was started, whichever is later. Cancelled attempts do not count. */
export const CanaryStatus = Schema.Struct({
  release: ReleaseNumber,
  percent: Schema.Int,
  canary: AttemptCounts,
  /** On workers of the active release. */
  active: AttemptCounts
})
export type CanaryStatus = typeof CanaryStatus.Type

/** The changes that a deployment would make. */
export const ReleasePreview = Schema.Struct({
  /** The number of the active or the rolling release. Absent for a new endpoint. */
  active: Schema.optionalKey(ReleaseNumber),
  /** The settings that differ, such as `workers.max`. Values of variables in `env` are included. */
  settings: Schema.Array(Schema.Struct({
    path: Schema.String,
    before: Schema.optionalKey(Schema.Json),
    after: Schema.optionalKey(Schema.Json)
  })),
  /** The hashes of the code, and the source files that differ. If only a package changed, the hash differs but no file does. */
  code: Schema.Struct({
    before: Schema.optionalKey(Schema.String),
    after: Schema.optionalKey(Schema.String),
    added: Schema.Array(Schema.String),
    removed: Schema.Array(Schema.String),
    changed: Schema.Array(Schema.String)
  }),
  /** Whether a deployment would create a release. */
  changes: Schema.Boolean
})
export type ReleasePreview = typeof ReleasePreview.Type

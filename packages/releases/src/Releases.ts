/**
 * Deploys endpoints as releases, and rolls them back.
 *
 * ```
 *   settings + handler --freeze--> code --compare with the endpoint's release--> nothing differs: no release
 *                                              |  differs
 *                                              v
 *                                   release + endpoint, in one transaction --> the autoscaler rolls it out (ReleaseMachine)
 * ```
 *
 * One deployment runs at a time, because each deployment ends with the removal of old code, which would delete code whose release is not stored yet.
 * The transactions of a shared store serialize the deployments of several platforms.
 */
import type { Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import type { Canary, Release, ReleaseCode, ReleasePreview } from "@stint/contract/Release"
import { CodeArtifacts, type CodeError } from "@stint/pool/CodeArtifacts"
import { EndpointStore } from "@stint/store/EndpointStore"
import { settingsOf } from "@stint/store/ReleaseMachine"
import { baseOf, type ReleasePageQuery, ReleaseStore } from "@stint/store/ReleaseStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { diffCode, diffSettings } from "./ReleaseDiff.ts"

/** The active release is not the one that the caller expected. */
export class ReleaseConflict extends Schema.TaggedError<ReleaseConflict>()("ReleaseConflict", {
  endpoint: Schema.String,
  expected: Schema.Int,
  /** The release of the endpoint; undefined when the endpoint has none. */
  actual: Schema.UndefinedOr(Schema.Struct({ number: Schema.Int, createdAt: Schema.Int, createdBy: Schema.String }))
}) {}

/** The endpoint already exists. */
export class EndpointExists extends Schema.TaggedError<EndpointExists>()("EndpointExists", { endpoint: Schema.String }) {}

/** There is no such release, or no release to roll back to. */
export class ReleaseMissing extends Schema.TaggedError<ReleaseMissing>()("ReleaseMissing", {
  endpoint: Schema.String,
  /** Undefined: the caller named no release. */
  number: Schema.UndefinedOr(Schema.Int)
}) {}

/** The endpoint has no canary. */
export class CanaryMissing extends Schema.TaggedError<CanaryMissing>()("CanaryMissing", { endpoint: Schema.String }) {}

/** A release to make. */
export interface DeployRequest {
  readonly spec: EndpointSpec
  /** The name of the key, or `configuration`. */
  readonly createdBy: string
  readonly message?: string | undefined
  /** Fails with `ReleaseConflict` unless this is the endpoint's release; 0: the endpoint does not exist or has no release. */
  readonly expected?: number | undefined
  /** Gives the release only a part of the jobs. Default: all. */
  readonly canary?: Canary | undefined
}

/** The endpoint after a deployment, and its release. */
export interface Deployed {
  readonly release: Release
  readonly endpoint: Endpoint
  /** False if nothing differed; then the release is the previous one. */
  readonly isNew: boolean
}

/** A rollback. */
export interface RollbackRequest {
  readonly endpoint: Endpoint
  readonly createdBy: string
  /** Default: the newest earlier release that was active. */
  readonly to?: number | undefined
  readonly message?: string | undefined
}

export class Releases extends Context.Service<Releases, {
  /** What `deploy` would change. Stores the code, but no release. */
  readonly preview: (spec: EndpointSpec) => Effect.Effect<ReleasePreview, CodeError | StoreError>
  readonly deploy: (request: DeployRequest) => Effect.Effect<Deployed, CodeError | ReleaseConflict | StoreError>
  /** Like `deploy`, for an endpoint that does not exist. */
  readonly create: (request: DeployRequest) => Effect.Effect<Deployed, CodeError | EndpointExists | StoreError>
  /**
   * Like `deploy`, for the configuration. The endpoint keeps its release if the code cannot be frozen, which is logged. It also keeps it if the
   * configuration is that of its current or failed canary, because a restart must not give a canary all jobs.
   */
  readonly redeploy: (request: DeployRequest) => Effect.Effect<void, StoreError>
  /**
   * Makes the first release of an endpoint, from its current state. Does nothing if the endpoint has one or no longer exists. If its code cannot be
   * frozen, logs why, and its workers run the current files.
   */
  readonly adopt: (id: EndpointId, createdBy: string) => Effect.Effect<void, StoreError>
  readonly rollback: (request: RollbackRequest) => Effect.Effect<Release, ReleaseMissing | StoreError>
  /** Promotes the endpoint's canary, which starts a rollout. */
  readonly promote: (id: EndpointId) => Effect.Effect<Release, CanaryMissing | StoreError>
  readonly get: (endpoint: EndpointId, number: number) => Effect.Effect<Release, ReleaseMissing | StoreError>
  readonly list: (endpoint: EndpointId, query: ReleasePageQuery) => Effect.Effect<ReadonlyArray<Release>, StoreError>
}>()("@stint/releases/Releases") {}

/** Options of {@link layerWith}. */
export interface Options {
  /** Held by a backup, which copies the database first and the code of its releases later. */
  readonly sweepLock: Semaphore.Semaphore
}

/** The page size of the search for the release to roll back to. */
const PAGE = 20

const make = Effect.fnUntraced(function*({ sweepLock }: Options) {
  const endpoints = yield* EndpointStore
  const store = yield* ReleaseStore
  const artifacts = yield* CodeArtifacts
  const one = yield* Semaphore.make(1)

  /**
   * Removes the code that no release refers to any more. Unused code only takes disk space, so a failed removal is retried with the next deployment.
   * A removal during a backup is postponed in the same way, because the backup's copy of the database may refer to the code.
   */
  const removeOldCode = Effect.ignore(sweepLock.withPermitsIfAvailable(1)(Effect.flatMap(store.codes, artifacts.retain)))

  const releaseOf = Effect.fnUntraced(function*(endpoint: Endpoint | undefined) {
    return endpoint?.release === undefined ? undefined : yield* store.get(endpoint.id, endpoint.release)
  })

  const previewOf = (before: Release | undefined, spec: EndpointSpec, code: ReleaseCode | undefined): ReleasePreview => {
    const settings = diffSettings(before?.settings, spec)
    return {
      ...(before === undefined ? {} : { active: before.number }),
      settings,
      code: diffCode(before?.code, code),
      changes: before === undefined || settings.length > 0 || before.code?.hash !== code?.hash
    }
  }

  /** The endpoint's newest release, if it is or was a canary of these settings and this code. */
  const canaryOf = Effect.fnUntraced(function*(spec: EndpointSpec, code: ReleaseCode | undefined) {
    const [latest] = yield* store.list(spec.id, { limit: 1 })
    const isTried = latest?.canary !== undefined && (latest.state === "canary" || latest.state === "failed")
    return isTried && !previewOf(latest, spec, code).changes ? latest : undefined
  })

  /** Stores a release of this code, unless nothing differs. */
  const release = Effect.fnUntraced(function*(
    { canary, createdBy, expected, message, spec }: DeployRequest,
    code: ReleaseCode | undefined,
    extra: { readonly rollbackOf?: number; readonly mustBeNew?: boolean } = {}
  ): Effect.fn.Return<Deployed, ReleaseConflict | EndpointExists | StoreError> {
    while (true) {
      const endpoint = yield* endpoints.get(spec.id)
      if (extra.mustBeNew === true && endpoint !== undefined) return yield* new EndpointExists({ endpoint: spec.id })
      const before = yield* releaseOf(endpoint)
      const base = baseOf(endpoint)
      if (expected !== undefined && expected !== (base ?? 0)) {
        const actual = before === undefined
          ? undefined
          : { number: before.number, createdAt: before.createdAt, createdBy: before.createdBy }
        return yield* new ReleaseConflict({ endpoint: spec.id, expected, actual })
      }
      if (
        endpoint !== undefined && before !== undefined && extra.rollbackOf === undefined && !previewOf(before, spec, code).changes
      ) {
        return { release: before, endpoint, isNew: false }
      }
      const result = yield* store.deploy(base, {
        settings: spec,
        createdAt: yield* Clock.currentTimeMillis,
        createdBy,
        ...(message === undefined ? {} : { message }),
        ...(code === undefined ? {} : { code }),
        ...(extra.rollbackOf === undefined ? {} : { rollbackOf: extra.rollbackOf }),
        ...(canary === undefined ? {} : { canary })
      })
      if (result._tag === "Moved") continue
      yield* removeOldCode
      return { release: result.release, endpoint: result.endpoint, isNew: true }
    }
  })

  const freeze = (spec: EndpointSpec) => artifacts.freeze(spec.source)

  const get = Effect.fnUntraced(function*(endpoint: EndpointId, number: number) {
    return (yield* store.get(endpoint, number)) ?? (yield* new ReleaseMissing({ endpoint, number }))
  })

  /** The newest release before the serving one that was active. */
  const lastGood = Effect.fnUntraced(function*(endpoint: Endpoint) {
    const { id, previousRelease, release: current = 0 } = endpoint
    // A rollback of a canary returns to the active release.
    if (endpoint.canary !== undefined && current > 0) return yield* get(id, current)
    // During a rollout, a rollback returns to the release that serves.
    if (previousRelease !== undefined) return yield* get(id, previousRelease)
    let before = current
    while (true) {
      const page = yield* store.list(id, { limit: PAGE, before })
      const found = page.find(({ activatedAt }) => activatedAt !== undefined)
      if (found !== undefined) return found
      const last = page.at(-1)
      if (last === undefined) return yield* new ReleaseMissing({ endpoint: id, number: undefined })
      before = last.number
    }
  })

  const never = (error: ReleaseConflict | EndpointExists) => Effect.die(error)

  return Releases.of({
    preview: (spec) =>
      one.withPermits(1)(Effect.gen(function*() {
        const code = yield* freeze(spec)
        return previewOf(yield* releaseOf(yield* endpoints.get(spec.id)), spec, code)
      })),
    deploy: (request) =>
      one.withPermits(1)(Effect.flatMap(freeze(request.spec), (code) => release(request, code))).pipe(
        Effect.catchTag("EndpointExists", never)
      ),
    create: (request) =>
      one.withPermits(1)(Effect.gen(function*() {
        // Checked before the code is frozen, which takes a second.
        if ((yield* endpoints.get(request.spec.id)) !== undefined) return yield* new EndpointExists({ endpoint: request.spec.id })
        return yield* release(request, yield* freeze(request.spec), { mustBeNew: true })
      })).pipe(Effect.catchTag("ReleaseConflict", never)),
    redeploy: (request) =>
      one.withPermits(1)(Effect.gen(function*() {
        const code = yield* freeze(request.spec)
        const canary = yield* canaryOf(request.spec, code)
        if (canary === undefined) return yield* Effect.asVoid(release(request, code))
        yield* canary.state === "canary"
          ? Effect.logInfo(`The configuration of endpoint ${request.spec.id} is its canary, release ${canary.number}.`)
          : Effect.logWarning(
            `The configuration of endpoint ${request.spec.id} is release ${canary.number}, which failed as a canary, so the endpoint keeps ` +
              `its release. Correct it, or deploy it anyway: stint deploy ${request.spec.id}`
          )
      })).pipe(
        Effect.catchTag(
          "CodeError",
          ({ message }) => Effect.logError(`${message} Endpoint ${request.spec.id} keeps its release.`)
        ),
        Effect.catchTag(["ReleaseConflict", "EndpointExists"], never),
        Effect.asVoid
      ),
    adopt: (id, createdBy) =>
      one.withPermits(1)(Effect.gen(function*() {
        const endpoint = yield* endpoints.get(id)
        if (endpoint === undefined || endpoint.release !== undefined) return
        const settings = settingsOf(endpoint)
        const code = yield* freeze(settings).pipe(
          Effect.catch(({ message }) =>
            Effect.as(Effect.logError(`${message} Endpoint ${id} runs from its files until it is deployed.`), undefined)
          )
        )
        // Stores nothing if the endpoint was deployed or deleted in the meantime.
        yield* store.deploy(0, {
          settings,
          createdAt: yield* Clock.currentTimeMillis,
          createdBy,
          ...(code === undefined ? {} : { code })
        })
      })),
    rollback: ({ createdBy, endpoint, message, to }) =>
      one.withPermits(1)(Effect.gen(function*() {
        const { code, number, settings } = to === undefined ? yield* lastGood(endpoint) : yield* get(endpoint.id, to)
        return (yield* release({ spec: settings, createdBy, message }, code, { rollbackOf: number })).release
      })).pipe(Effect.catchTag(["ReleaseConflict", "EndpointExists"], never)),
    promote: (id) =>
      one.withPermits(1)(Effect.gen(function*() {
        const number = (yield* endpoints.get(id))?.canary?.release
        const promoted = number === undefined ? undefined : yield* store.settle(id, number, { _tag: "Promoted" })
        const found = number === undefined || promoted === undefined ? undefined : yield* store.get(id, number)
        return found ?? (yield* new CanaryMissing({ endpoint: id }))
      })),
    get,
    list: (endpoint, query) => store.list(endpoint, query)
  })
})

/** The service. Removes unused code after each deployment, except during a backup. */
export const layerWith = (options: Options): Layer.Layer<Releases, never, EndpointStore | ReleaseStore | CodeArtifacts> =>
  Layer.effect(Releases, make(options))

/** {@link layerWith} for a platform without backups. */
export const layer: Layer.Layer<Releases, never, EndpointStore | ReleaseStore | CodeArtifacts> = Layer.suspend(() =>
  layerWith({ sweepLock: Semaphore.makeUnsafe(1) })
)

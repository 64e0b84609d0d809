/**
 * The platform's builds: starts, queues, cancels and deploys them.
 *
 * ```
 *   start --copy of the settings--> queued --one at a time--> BuildRun --image--> Releases.deploy --> succeeded
 *                                                                 |--> failed, with the reason
 * ```
 *
 * The first build loads the code for builds. When the platform starts, it marks builds that were running when it last ended as failed.
 */
import { type Build, hasEnded } from "@stint/contract/Build"
import { type Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import type { SecretName } from "@stint/contract/Secret"
import { type DeployRequest, Releases } from "@stint/releases/Releases"
import { Secrets } from "@stint/secrets/Secrets"
import { BuildStore } from "@stint/store/BuildStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import { settingsOf } from "@stint/store/ReleaseMachine"
import type { StoreError } from "@stint/store/StoreError"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberMap from "effect/FiberMap"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { join } from "node:path"
import type { BuildEngine } from "./BuildEngine.ts"
import { type BuildFailed, BuildMissing, failed } from "./BuildError.ts"
import type { BuildLog } from "./BuildLog.ts"
import { Builds, type BuildsService } from "./Builds.ts"

/** The settings of the platform. */
export interface Options {
  /** The container engine. Fails when there is none. Called for each build. */
  readonly engine: Effect.Effect<BuildEngine["Service"], BuildFailed>
  /** A folder for the files of running builds. */
  readonly folder: string
  /** Where images are pushed, such as `registry.example.com/team`. Undefined: they stay in the engine. */
  readonly registry: string | undefined
  /** Options for the engine's `build`. */
  readonly options: ReadonlyArray<string>
  /** The folders whose repositories may be cloned by path. */
  readonly localFolders: ReadonlyArray<string>
}

const DEFAULT_TIMEOUT_MILLIS = 3_600_000

const decodeSpec = Schema.decodeUnknownSync(EndpointSpec)

/** Workers of other SDKs need a lease of at least 3 s (docs/spec/worker-protocol.md#heartbeat). */
const MIN_LEASE_MILLIS = 3_000

/** The settings of an endpoint, with a different image. An endpoint that does not exist gets the defaults. */
const specOf = (id: EndpointId, endpoint: Endpoint | undefined, image: string): EndpointSpec => {
  if (endpoint === undefined) return decodeSpec({ id, source: { type: "container", image } })
  const settings = settingsOf(endpoint)
  return {
    ...settings,
    leaseMs: Math.max(settings.leaseMs, MIN_LEASE_MILLIS),
    source: settings.source.type === "container" ? { ...settings.source, image } : { type: "container", image }
  }
}

const releaseMessage = ({ commit, message, number, settings }: Build): string =>
  `Build ${number} of ${settings.ref ?? "the default branch"}${commit === undefined ? "" : ` (${commit.slice(0, 10)})`}${
    message === undefined ? "" : `: ${message}`
  }`.slice(0, 1_000)

const seconds = (millis: number): string => `${Math.round(millis / 1000)} s`

const make = Effect.fnUntraced(function*(options: Options) {
  const store = yield* BuildStore
  const releases = yield* Releases
  const endpoints = yield* EndpointStore
  const secrets = yield* Secrets
  const one = yield* Semaphore.make(1)
  const running = yield* FiberMap.make<string>()
  /** Held while a build deploys, and while an endpoint is removed. */
  const deploying = yield* Semaphore.make(1)
  /** Removed endpoints whose builds are not removed yet. */
  const removing = new Set<EndpointId>()

  /** Removes the files of builds that were killed: they contain keys. The keys of known ssh hosts stay. */
  const removeFiles = Effect.ignore(Effect.tryPromise(async () => {
    const { readdir, rm } = await import("node:fs/promises")
    for (const name of await readdir(options.folder)) {
      if (name.startsWith("build-")) await rm(join(options.folder, name), { recursive: true, force: true })
    }
  }))

  const abandoned = yield* store.unended
  if (abandoned.length > 0) {
    yield* removeFiles
    const endedAt = yield* Clock.currentTimeMillis
    for (const build of abandoned) {
      const reason = `The platform stopped while the build was ${build.state}. Start it again: stint build ${build.endpoint}`
      yield* store.appendLog(build.endpoint, build.number, [{ time: endedAt, text: reason }])
      yield* store.update({ ...build, state: "failed", endedAt, reason })
      yield* Effect.logWarning(`Build ${build.number} of endpoint ${build.endpoint} failed. ${reason}`)
    }
  }

  const get = Effect.fnUntraced(function*(endpoint: EndpointId, number: number) {
    return (yield* store.get(endpoint, number)) ?? (yield* new BuildMissing({ endpoint, number }))
  })

  /** The values of secrets, by the keys of `names`. */
  const resolve = (endpoint: EndpointId, names: Readonly<Record<string, SecretName>>) => {
    const env = Object.fromEntries(Object.entries(names).map(([key, secret]) => [key, { secret }]))
    const found = secrets.variablesOf({ id: endpoint, env })
    return found._tag === "Resolved" ? Effect.succeed(found.env) : Effect.fail(failed(
      `The secret "${found.secret}" of the build settings does not exist.`,
      `Set it: stint secrets set ${found.secret}`
    ))
  }

  /** Masks the current values, because a secret can change while the build waits. */
  const maskOf = (using: Parameters<typeof secrets.maskOf>[0]) => {
    let made: { readonly revision: number; readonly mask: ((text: string) => string) | undefined } | undefined
    return (text: string): string => {
      const revision = secrets.revision()
      if (made?.revision !== revision) made = { revision, mask: secrets.maskOf(using) }
      return made.mask?.(text) ?? text
    }
  }

  /** Deploys an image with the current settings of the endpoint. */
  const release = Effect.fnUntraced(function*(build: Build, image: string, request: Omit<DeployRequest, "spec">) {
    // The endpoint was removed while the build waited to deploy. A release would create the endpoint again.
    if (removing.has(build.endpoint) || (yield* store.get(build.endpoint, build.number)) === undefined) {
      return yield* failed(`The endpoint ${build.endpoint} was deleted.`)
    }
    const spec = specOf(build.endpoint, yield* endpoints.get(build.endpoint), image)
    const deployed = yield* releases.deploy({ ...request, spec }).pipe(
      // No release was expected, so a conflict is impossible.
      Effect.catchTag("ReleaseConflict", Effect.die),
      Effect.catchTag("CodeError", ({ message }) => Effect.fail(failed(message)))
    )
    return deployed.release
  }, (effect) => deploying.withPermit(effect))

  /** Builds and deploys. Interruption does not change the record. */
  const work = Effect.fnUntraced(function*(queued: Build, log: BuildLog, mask: (text: string) => string) {
    const { endpoint, settings } = queued
    let build: Build = { ...queued, state: "running", startedAt: yield* Clock.currentTimeMillis }
    yield* store.update(build)
    const credential = settings.credential === undefined
      ? undefined
      : (yield* resolve(endpoint, { credential: settings.credential }))["credential"]
    const values = yield* resolve(endpoint, settings.secrets ?? {})
    const engine = yield* options.engine
    const { run } = yield* Effect.promise(() => import("./BuildRun.ts"))
    const limit = settings.timeoutMs ?? DEFAULT_TIMEOUT_MILLIS
    const output = yield* run({
      build,
      engine,
      folder: options.folder,
      registry: options.registry,
      options: options.options,
      localFolders: options.localFolders,
      credential,
      secrets: values,
      mask,
      log: log.write,
      cloned: (commit) => {
        build = { ...build, commit }
        return Effect.ignore(store.update(build))
      }
    }).pipe(Effect.timeoutOrElse({
      duration: limit,
      orElse: () =>
        Effect.fail(failed(
          `The build took longer than its limit of ${seconds(limit)}.`,
          `Raise the limit if it needs more: stint builds settings ${endpoint} --timeout 2h`
        ))
    }))
    // From here on, the build can no longer be cancelled.
    return yield* Effect.uninterruptible(Effect.gen(function*() {
      build = { ...build, ...output }
      const { createdBy, settings: { canary } } = build
      const { number, state } = yield* release(build, output.image, {
        createdBy,
        message: releaseMessage(build),
        ...(canary === undefined ? {} : { canary })
      })
      log.write(
        `Deployed as release ${number} of ${endpoint}.` + (state === "canary" && canary !== undefined
          ? ` It gets ${canary.percent} % of the jobs. Give it all: stint releases promote ${endpoint}`
          : "")
      )
      yield* log.finish
      yield* store.update({ ...build, state: "succeeded", release: number, endedAt: yield* Clock.currentTimeMillis })
    }))
  })

  const end = Effect.fnUntraced(function*({ endpoint, number }: Build, state: "failed" | "cancelled", reason: string) {
    const build = yield* store.get(endpoint, number)
    if (build === undefined || hasEnded(build)) return
    yield* store.update({ ...build, state, reason, endedAt: yield* Clock.currentTimeMillis })
  })

  /** Waits until it is the build's turn, runs it, and stores its result. */
  const runOne = (build: Build) =>
    Effect.scoped(Effect.gen(function*() {
      const { make } = yield* Effect.promise(() => import("./BuildLog.ts"))
      const { credential, secrets: mounts = {} } = build.settings
      const names = { ...mounts, ...(credential === undefined ? {} : { credential }) }
      const env = Object.fromEntries(Object.entries(names).map(([key, secret]) => [key, { secret }]))
      const mask = maskOf({ id: build.endpoint, env })
      const log = yield* make(store, build, mask)
      yield* one.withPermits(1)(work(build, log, mask)).pipe(
        Effect.onExit((exit) => {
          if (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause)) return log.finish
          const error = Cause.squash(exit.cause)
          const reason = mask(error instanceof Error ? error.message : String(error))
          log.write(`Failed: ${reason}`)
          return Effect.andThen(log.finish, end(build, "failed", reason)).pipe(
            Effect.andThen(Effect.logWarning(`Build ${build.number} of endpoint ${build.endpoint} failed. ${reason}`)),
            Effect.catch((stored) =>
              Effect.logError(`The result of build ${build.number} of ${build.endpoint} was not stored: ${stored.message}`)
            )
          )
        }),
        Effect.exit
      )
    }))

  const keyOf = ({ endpoint, number }: Pick<Build, "endpoint" | "number">) => `${endpoint}/${number}`

  const service: BuildsService = {
    settings: Effect.fnUntraced(function*(endpoint) {
      return (yield* store.settings(endpoint)) ?? (yield* new BuildMissing({ endpoint, number: undefined }))
    }),
    saveSettings: store.saveSettings,
    start: Effect.fnUntraced(function*(request) {
      if ((yield* store.settings(request.endpoint)) === undefined) {
        return yield* new BuildMissing({ endpoint: request.endpoint, number: undefined })
      }
      // If the platform cannot build, the request fails at once, instead of a build whose log has the reason.
      yield* (yield* options.engine).program
      const { isInstalled } = yield* Effect.promise(() => import("./Program.ts"))
      if (!(yield* isInstalled("git"))) {
        return yield* failed("The program git is not installed on the platform's machine.", "Install it: apt install git")
      }
      const build = yield* store.create({ ...request, createdAt: yield* Clock.currentTimeMillis })
      if (build === undefined) return yield* new BuildMissing({ endpoint: request.endpoint, number: undefined })
      yield* FiberMap.run(running, keyOf(build), runOne(build))
      return build
    }),
    // A caller that disconnects while the programs end must not leave the build in the state "running" forever.
    cancel: Effect.fnUntraced(function*(endpoint, number, by) {
      const build = yield* get(endpoint, number)
      yield* FiberMap.remove(running, keyOf(build))
      yield* end(build, "cancelled", `Cancelled by ${by}.`)
      return yield* get(endpoint, number)
    }, Effect.uninterruptible),
    deploy: Effect.fnUntraced(function*(endpoint, number, by) {
      const build = yield* get(endpoint, number)
      if (build.image === undefined || build.state !== "succeeded") {
        return yield* failed(
          `Build ${number} of "${endpoint}" is ${build.state}, and has no image to deploy.`,
          `Choose a build that succeeded: stint builds ${endpoint}`
        )
      }
      return yield* release(build, build.image, { createdBy: by, message: `Image of build ${number}` })
    }),
    get,
    list: store.list,
    hasSucceeded: store.hasSucceeded,
    log: store.readLog,
    forget: Effect.fnUntraced(function*(endpoint, remove) {
      const result = yield* deploying.withPermit(
        Effect.tap(remove, (removed) => Effect.sync(() => removed === "busy" ? undefined : removing.add(endpoint)))
      )
      if (result === "busy") return result
      yield* Effect.gen(function*() {
        for (const build of yield* store.unended) if (build.endpoint === endpoint) yield* FiberMap.remove(running, keyOf(build))
        yield* store.removeAll(endpoint)
      }).pipe(Effect.ensuring(Effect.sync(() => removing.delete(endpoint))))
      return result
    }, Effect.uninterruptible)
  }
  return service
})

/** The service. Marks builds that an earlier platform did not finish as failed. */
export const layer = (options: Options): Layer.Layer<never, StoreError, BuildStore | Releases | EndpointStore> =>
  Layer.effect(Builds, make(options))

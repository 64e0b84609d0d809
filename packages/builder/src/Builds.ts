/**
 * The operations on builds, for the server. `BuildQueue.layer` implements them.
 */
import type { Build, BuildLogLine, BuildSettings } from "@stint/contract/Build"
import type { EndpointId } from "@stint/contract/Ids"
import type { Release } from "@stint/contract/Release"
import type { BuildPageQuery } from "@stint/store/BuildStore"
import type { RemoveResult } from "@stint/store/EndpointStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { type BuildFailed, BuildMissing, failed } from "./BuildError.ts"

/** A build to start. */
export interface StartRequest {
  readonly endpoint: EndpointId
  readonly createdBy: string
  readonly trigger: Build["trigger"]
  /** Default: the `ref` in the settings. */
  readonly ref?: string | undefined
  readonly message?: string | undefined
}

/** The operations on builds. */
export interface BuildsService {
  /** Fails with `BuildMissing` for an endpoint without build settings. */
  readonly settings: (endpoint: EndpointId) => Effect.Effect<BuildSettings, BuildMissing | StoreError>
  readonly saveSettings: (endpoint: EndpointId, settings: BuildSettings) => Effect.Effect<void, BuildFailed | StoreError>
  /** Fails with `BuildFailed` when this platform cannot build. */
  readonly start: (request: StartRequest) => Effect.Effect<Build, BuildFailed | BuildMissing | StoreError>
  /** Returns the build after it has ended. */
  readonly cancel: (endpoint: EndpointId, number: number, by: string) => Effect.Effect<Build, BuildMissing | StoreError>
  /** Deploys the image of a successful build. */
  readonly deploy: (
    endpoint: EndpointId,
    number: number,
    by: string
  ) => Effect.Effect<Release, BuildFailed | BuildMissing | StoreError>
  readonly get: (endpoint: EndpointId, number: number) => Effect.Effect<Build, BuildMissing | StoreError>
  readonly list: (endpoint: EndpointId, query: BuildPageQuery) => Effect.Effect<ReadonlyArray<Build>, StoreError>
  readonly hasSucceeded: (endpoint: EndpointId) => Effect.Effect<boolean, StoreError>
  readonly log: (
    endpoint: EndpointId,
    number: number,
    after: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<BuildLogLine>, StoreError>
  /**
   * Removes an endpoint with `remove`, cancels its builds, and removes them with their settings. Afterwards, no build creates the endpoint again.
   * Changes nothing if `remove` returns `busy`.
   */
  readonly forget: (
    endpoint: EndpointId,
    remove: Effect.Effect<RemoveResult, StoreError>
  ) => Effect.Effect<RemoveResult, StoreError>
}

const missing = (endpoint: EndpointId, number?: number) => Effect.fail(new BuildMissing({ endpoint, number }))

/** A server that cannot build, for the given reason. */
export const unavailable = (why: BuildFailed): BuildsService => ({
  settings: (endpoint) => missing(endpoint),
  saveSettings: () => Effect.fail(why),
  start: () => Effect.fail(why),
  cancel: missing,
  deploy: missing,
  get: missing,
  list: () => Effect.succeed([]),
  hasSucceeded: () => Effect.succeed(false),
  log: () => Effect.succeed([]),
  forget: (_, remove) => remove
})

/** Default: a server that cannot build. */
export const Builds = Context.Reference<BuildsService>("@stint/builder/Builds", {
  defaultValue: () => unavailable(failed("This server cannot build endpoints.", "Build with the platform: stint serve"))
})

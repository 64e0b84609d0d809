/**
 * The store of builds, their settings and their logs.
 */
import { type Build, type BuildLogLine, type BuildSettings, hasEnded } from "@stint/contract/Build"
import type { EndpointId } from "@stint/contract/Ids"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { StoreError } from "../StoreError.ts"

/** The number of builds that are kept for each endpoint. Older builds that have not ended are kept as well. */
export const KEPT_BUILDS = 50

/** A build to be created. It gets the endpoint's next number, and the stored settings with this `ref`. */
export interface NewBuild extends Pick<Build, "endpoint" | "createdAt" | "createdBy" | "trigger"> {
  readonly ref?: string | undefined
  readonly message?: string | undefined
}

/** A page of builds, newest first. */
export interface BuildPageQuery {
  readonly limit: number
  /** Only builds with a lower number. */
  readonly before?: number | undefined
}

export class BuildStore extends Context.Service<BuildStore, {
  /** Undefined for an endpoint without build settings. */
  readonly settings: (endpoint: EndpointId) => Effect.Effect<BuildSettings | undefined, StoreError>
  readonly saveSettings: (endpoint: EndpointId, settings: BuildSettings) => Effect.Effect<void, StoreError>
  /**
   * Creates a queued build with a copy of the stored settings, in one atomic step, and removes old builds beyond {@link KEPT_BUILDS}.
   * Undefined when the endpoint has no build settings.
   */
  readonly create: (build: NewBuild) => Effect.Effect<Build | undefined, StoreError>
  /** Replaces a build that has not ended. Returns false and changes nothing when the stored build has ended or was removed. */
  readonly update: (build: Build) => Effect.Effect<boolean, StoreError>
  /** Undefined for an unknown build. */
  readonly get: (endpoint: EndpointId, number: number) => Effect.Effect<Build | undefined, StoreError>
  readonly list: (endpoint: EndpointId, query: BuildPageQuery) => Effect.Effect<ReadonlyArray<Build>, StoreError>
  /** Whether a stored build of the endpoint has succeeded. */
  readonly hasSucceeded: (endpoint: EndpointId) => Effect.Effect<boolean, StoreError>
  /** The builds of all endpoints that have not ended. */
  readonly unended: Effect.Effect<ReadonlyArray<Build>, StoreError>
  /** Appends lines to the log of a build. Lines of a removed build are dropped. */
  readonly appendLog: (
    endpoint: EndpointId,
    number: number,
    lines: ReadonlyArray<Omit<BuildLogLine, "number">>
  ) => Effect.Effect<void, StoreError>
  /** The lines after a number, oldest first. */
  readonly readLog: (
    endpoint: EndpointId,
    number: number,
    after: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<BuildLogLine>, StoreError>
  /** Removes the builds of an endpoint, with their settings and logs. */
  readonly removeAll: (endpoint: EndpointId) => Effect.Effect<void, StoreError>
}>()("@stint/store/BuildStore") {}

/** The first state of a build. */
export const newBuild = (number: number, settings: BuildSettings, { message, ref, ...rest }: NewBuild): Build => ({
  ...rest,
  number,
  state: "queued",
  settings: ref === undefined ? settings : { ...settings, ref },
  warnings: [],
  ...(message === undefined ? {} : { message })
})

/** Whether a build may be removed when the build `latest` is created. */
export const isObsolete = (latest: number, build: Pick<Build, "number" | "state">): boolean =>
  build.number <= latest - KEPT_BUILDS && hasEnded(build)

interface Kept {
  build: Build
  readonly log: Array<BuildLogLine>
}

/** Builds in memory. */
export const layerMemory: Layer.Layer<BuildStore> = Layer.sync(BuildStore, () => {
  const settings = new Map<EndpointId, BuildSettings>()
  const builds = new Map<EndpointId, Map<number, Kept>>()
  const of = (endpoint: EndpointId): Map<number, Kept> => {
    const known = builds.get(endpoint) ?? new Map<number, Kept>()
    builds.set(endpoint, known)
    return known
  }
  const all = (endpoint: EndpointId): ReadonlyArray<Build> =>
    [...(builds.get(endpoint) ?? new Map<number, Kept>()).values()].map(({ build }) => build)
  return BuildStore.of({
    settings: (endpoint) => Effect.sync(() => settings.get(endpoint)),
    saveSettings: (endpoint, saved) => Effect.sync(() => void settings.set(endpoint, saved)),
    create: (request) =>
      Effect.sync(() => {
        const saved = settings.get(request.endpoint)
        if (saved === undefined) return undefined
        const known = of(request.endpoint)
        const build = newBuild(Math.max(0, ...known.keys()) + 1, saved, request)
        known.set(build.number, { build, log: [] })
        for (const one of all(request.endpoint)) if (isObsolete(build.number, one)) known.delete(one.number)
        return build
      }),
    update: (build) =>
      Effect.sync(() => {
        const kept = builds.get(build.endpoint)?.get(build.number)
        if (kept === undefined || hasEnded(kept.build)) return false
        kept.build = build
        return true
      }),
    get: (endpoint, number) => Effect.sync(() => builds.get(endpoint)?.get(number)?.build),
    list: (endpoint, { before = Infinity, limit }) =>
      Effect.sync(() =>
        all(endpoint).filter(({ number }) => number < before).sort((a, b) => b.number - a.number).slice(0, limit)
      ),
    hasSucceeded: (endpoint) => Effect.sync(() => all(endpoint).some(({ state }) => state === "succeeded")),
    unended: Effect.sync(() => [...builds.keys()].flatMap((endpoint) => all(endpoint).filter((build) => !hasEnded(build)))),
    appendLog: (endpoint, number, lines) =>
      Effect.sync(() => {
        const log = builds.get(endpoint)?.get(number)?.log
        for (const line of lines) log?.push({ ...line, number: log.length + 1 })
      }),
    readLog: (endpoint, number, after, limit) =>
      Effect.sync(() => builds.get(endpoint)?.get(number)?.log.slice(after, after + limit) ?? []),
    removeAll: (endpoint) =>
      Effect.sync(() => {
        settings.delete(endpoint)
        builds.delete(endpoint)
      })
  })
})

/**
 * The state machine of releases. Pure: an endpoint and an event determine the endpoint and the releases to write, in one transaction.
 *
 * ```
 *   Deploy, no worker must be replaced            endpoint: release n                  n: active, the one before: superseded
 *   Deploy                                        endpoint: release n, previous m      n: rolling, m stays active
 *   Settle n: ready                               endpoint: release n                  n: active, m: superseded
 *   Settle n: failed                              endpoint: release m, as it was       n: failed
 *
 *   Deploy as a canary                            endpoint: release m, canary n        n: canary, m stays active
 *   Settle n: failed                              endpoint: release m                  n: failed
 *   Settle n: promoted                            endpoint: release n, previous m      n: rolling
 * ```
 *
 * A deployment during a rollout replaces the rolling release and keeps the active one as the previous release. Every deployment ends a canary.
 */
import { type Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import type { Canary, Release, ReleaseCode } from "@stint/contract/Release"
import { pingIntervalOf } from "@stint/contract/WorkerProtocol"
import * as Schema from "effect/Schema"

/** The number of releases that are kept for each endpoint. The active and the rolling release are kept as well, even if they are older. */
const KEPT_RELEASES = 20

/** A release to be created. It gets the endpoint's next number. */
export interface Deployment {
  readonly settings: EndpointSpec
  readonly createdAt: number
  readonly createdBy: string
  readonly message?: string
  readonly code?: ReleaseCode
  readonly rollbackOf?: number
  /** The release gets only a part of the jobs. No effect if the release replaces no worker. */
  readonly canary?: Canary
}

/** How a rollout or a canary ended. `at`: milliseconds since 1970. A promoted canary is then rolled out. */
export type RollOutcome =
  | { readonly _tag: "Ready"; readonly at: number }
  | { readonly _tag: "Failed"; readonly reason: string }
  | { readonly _tag: "Promoted" }

/** What must be written. */
export interface ReleaseChange {
  readonly endpoint: Endpoint
  /** New and changed releases, the new one first. */
  readonly releases: readonly [Release, ...ReadonlyArray<Release>]
}

/** The settings and the code with which a worker starts, and where. Workers started with other settings or code are outdated. */
export const workerFingerprint = (
  { env, leaseMs, model, placement, source }: Pick<EndpointSpec, "source" | "env" | "leaseMs" | "model" | "placement">,
  code: string | undefined
): string =>
  JSON.stringify([
    source,
    Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1)),
    pingIntervalOf(leaseMs),
    ...(code === undefined ? [] : [code]),
    ...(model === undefined ? [] : [{ model }]),
    ...(placement === undefined ? [] : [{ labels: Object.entries(placement.labels).sort(([a], [b]) => (a < b ? -1 : 1)) }])
  ])

const fingerprintOf = ({ code, settings }: Pick<Release, "settings" | "code">) => workerFingerprint(settings, code?.hash)

/** Whether the platform runs workers of this endpoint, so that a release can be verified. */
const hasWorkers = ({ source, workers }: EndpointSpec): boolean => source.type !== "external" && workers.max > 0

/**
 * The settings of an endpoint, without its state. The compiler also accepts a whole endpoint as an `EndpointSpec`, and deploying it would carry over
 * the state of a canary or a rollout that the deployment ends.
 */
export const settingsOf = (
  { canary: _, createdAt: __, previousRelease: ___, release: ____, ...settings }: EndpointSpec & Partial<Endpoint>
): EndpointSpec => settings

/** `latest`: the release with the highest number. `releaseOf`: a stored release of the endpoint. */
export const deploy = (
  endpoint: Endpoint | undefined,
  latest: number,
  releaseOf: (number: number) => Release | undefined,
  { canary, settings: given, ...deployment }: Deployment
): ReleaseChange => {
  const settings = settingsOf(given)
  const tried = endpoint?.canary === undefined ? undefined : releaseOf(endpoint.canary.release)
  const current = endpoint?.release === undefined ? undefined : releaseOf(endpoint.release)
  const serving = endpoint?.previousRelease === undefined ? current : releaseOf(endpoint.previousRelease)
  const number = latest + 1
  const made = { ...deployment, endpoint: settings.id, number, settings }
  const createdAt = endpoint?.createdAt ?? deployment.createdAt
  const isServing = serving !== undefined && fingerprintOf(serving) === fingerprintOf(made)
  if (serving === undefined || isServing || !hasWorkers(settings)) {
    const ended = [current, serving === current ? undefined : serving, tried].flatMap((release) =>
      release === undefined ? [] : [superseded(release)]
    )
    return {
      endpoint: { ...settings, createdAt, release: number },
      releases: [{ ...made, state: "active", activatedAt: deployment.createdAt }, ...ended]
    }
  }
  const replaced = [current === serving ? undefined : current, tried].flatMap((release) =>
    release === undefined ? [] : [superseded(release)]
  )
  if (canary !== undefined) {
    return {
      endpoint: { ...serving.settings, createdAt, release: serving.number, canary: { release: number, percent: canary.percent } },
      releases: [{ ...made, canary, state: "canary" }, ...replaced]
    }
  }
  return {
    endpoint: { ...settings, createdAt, release: number, previousRelease: serving.number },
    releases: [{ ...made, state: "rolling" }, ...replaced]
  }
}

const superseded = (release: Release): Release => ({ ...release, state: "superseded" })

/** Ends a canary. */
const settleCanary = (
  { canary: _, ...endpoint }: Endpoint,
  release: Release,
  outcome: RollOutcome
): ReleaseChange | undefined => {
  switch (outcome._tag) {
    case "Ready":
      return undefined
    case "Failed":
      return { endpoint, releases: [{ ...release, state: "failed", reason: outcome.reason }] }
    case "Promoted": {
      const { createdAt, release: active } = endpoint
      const promoted = { ...release.settings, createdAt, release: release.number }
      return {
        endpoint: active === undefined ? promoted : { ...promoted, previousRelease: active },
        releases: [{ ...release, state: "rolling" }]
      }
    }
  }
}

/** Ends a rollout or a canary; undefined if this release is no longer rolling or a canary. */
export const settle = (
  endpoint: Endpoint | undefined,
  number: number,
  releaseOf: (number: number) => Release | undefined,
  outcome: RollOutcome
): ReleaseChange | undefined => {
  const release = releaseOf(number)
  if (endpoint?.canary?.release === number) return release === undefined ? undefined : settleCanary(endpoint, release, outcome)
  if (endpoint?.release !== number || endpoint.previousRelease === undefined || outcome._tag === "Promoted") return undefined
  const previous = releaseOf(endpoint.previousRelease)
  if (release === undefined || previous === undefined) return undefined
  const { previousRelease: _, ...rest } = endpoint
  return outcome._tag === "Ready"
    ? { endpoint: rest, releases: [{ ...release, state: "active", activatedAt: outcome.at }, superseded(previous)] }
    : {
      endpoint: { ...previous.settings, createdAt: endpoint.createdAt, release: previous.number },
      releases: [{ ...release, state: "failed", reason: outcome.reason }]
    }
}

/** Whether a release may be removed. */
export const isObsolete = ({ canary, previousRelease, release }: Endpoint, latest: number, number: number): boolean =>
  number <= latest - KEPT_RELEASES && number !== release && number !== previousRelease && number !== canary?.release

const encodeSettings = Schema.encodeSync(EndpointSpec)

/** The settings as JSON, for comparisons. */
export const settingsJson = (settings: EndpointSpec): typeof EndpointSpec.Encoded => encodeSettings(settings)

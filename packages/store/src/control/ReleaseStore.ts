/**
 * The store of releases, in the same database as the endpoints: a release and the endpoint that it becomes are written in one transaction.
 *
 * An endpoint's release is the last deployed release that has not failed. `Endpoint.previousRelease` is set during a rollout. It is the release that
 * serves until the rollout has ended, and whose settings are restored if the rollout fails.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import type { Release } from "@stint/contract/Release"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreError } from "../StoreError.ts"
import type { Deployment, RollOutcome } from "./ReleaseMachine.ts"

/** The result of a deployment. */
export type DeployResult =
  | { readonly _tag: "Deployed"; readonly release: Release; readonly endpoint: Endpoint }
  /** Another deployment came first, and nothing was stored. `base`: the value that the caller would have to pass now. */
  | { readonly _tag: "Moved"; readonly base: number | null }

/** A page of releases, newest first. */
export interface ReleasePageQuery {
  readonly limit: number
  /** Only releases with a lower number. */
  readonly before?: number
}

export class ReleaseStore extends Context.Service<ReleaseStore, {
  /**
   * Makes the next release of an endpoint and creates or replaces the endpoint. Removes old releases beyond `KEPT_RELEASES`.
   *
   * `base`: the release that the caller compared with; 0 if the endpoint has no releases, null if it does not exist.
   */
  readonly deploy: (base: number | null, deployment: Deployment) => Effect.Effect<DeployResult, StoreError>
  /**
   * Ends the rollout or the canary of a release. Returns the changed endpoint. Returns undefined and changes nothing if this release is no longer
   * rolling or a canary.
   */
  readonly settle: (id: EndpointId, number: number, outcome: RollOutcome) => Effect.Effect<Endpoint | undefined, StoreError>
  /** Undefined for an unknown release. */
  readonly get: (id: EndpointId, number: number) => Effect.Effect<Release | undefined, StoreError>
  readonly list: (id: EndpointId, query: ReleasePageQuery) => Effect.Effect<ReadonlyArray<Release>, StoreError>
  /** The code hashes of all stored releases. */
  readonly codes: Effect.Effect<ReadonlySet<string>, StoreError>
}>()("@stint/store/ReleaseStore") {}

/** The `base` of an endpoint, for {@link ReleaseStore}. */
export const baseOf = (endpoint: Endpoint | undefined): number | null => endpoint === undefined ? null : endpoint.release ?? 0

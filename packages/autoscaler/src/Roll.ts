/**
 * Ends the rollout of a release when its first worker is ready or fails to start.
 *
 * ```
 *   the release's first worker --takes part--> proven: active; the autoscaler replaces the previous workers
 *                               `-fails-----> failed: the endpoint returns to the previous release, which keeps serving
 * ```
 *
 * The end is stored, so a restarted platform continues an unfinished rollout and does not repeat a failed one. One failed start ends the rollout;
 * another deployment tries again.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { CanaryTemplate, EndpointTarget } from "./WorkerTemplate.ts"

export interface Roll {
  /** Whether a release with this fingerprint is being verified, in a rollout or as a canary. */
  readonly isTrying: (target: EndpointTarget | undefined, fingerprint: string) => boolean
  /** The release that runs as a canary; undefined if there is none or it has failed. */
  readonly canaryOf: (target: EndpointTarget) => CanaryTemplate | undefined
  /** Whether the release was verified and failed. No more workers of it are started. */
  readonly hasFailed: (target: EndpointTarget) => boolean
  /** Stores that the release is active. Returns the target after the rollout, or the current target if this cannot be stored now. */
  readonly proven: (target: EndpointTarget) => Effect.Effect<EndpointTarget>
  /** Records that the release failed. The returned effect stores it; it retries until it succeeds. */
  readonly failed: (target: EndpointTarget, reason: string) => Effect.Effect<void>
}

/** The rollouts of one endpoint. */
export const make = Effect.fnUntraced(function*(endpoint: EndpointId): Effect.fn.Return<Roll, never, ReleaseStore> {
  const releases = yield* ReleaseStore
  /** The last release that failed. */
  let failed: number | undefined

  const isRolling = ({ endpoint: { release }, previous }: EndpointTarget): boolean => previous !== undefined && release !== failed

  const canaryOf = ({ canary }: EndpointTarget) => canary?.release === failed ? undefined : canary

  return {
    isTrying: (target, fingerprint) => {
      if (target === undefined) return false
      if (fingerprint === canaryOf(target)?.fingerprint) return true
      return isRolling(target) && fingerprint === target.current.fingerprint && fingerprint !== target.previous?.fingerprint
    },
    canaryOf,
    hasFailed: (target) => !isRolling(target),
    proven: (target) =>
      Effect.gen(function*() {
        const { release, previousRelease } = target.endpoint
        if (release === undefined || !isRolling(target)) return target
        const at = yield* Clock.currentTimeMillis
        if ((yield* releases.settle(endpoint, release, { _tag: "Ready", at })) === undefined) return target
        yield* Effect.logInfo(
          `Release ${release} of endpoint ${endpoint} is active. Its workers replace those of release ${previousRelease}.`
        )
        return { ...target, previous: undefined }
      }).pipe(
        // The next check tries again.
        Effect.catch(() => Effect.succeed(target))
      ),
    failed: (target, reason) => {
      const canary = canaryOf(target)
      const release = canary?.release ?? target.endpoint.release
      const serving = canary === undefined ? target.endpoint.previousRelease : target.endpoint.release
      failed = release
      return release === undefined ? Effect.void : Effect.gen(function*() {
        yield* Effect.logError(
          `Release ${release} of endpoint ${endpoint} ${
            canary === undefined ? "did not start" : "failed as a canary"
          }, and release ` +
            `${serving} keeps serving. ${reason}`
        )
        yield* Effect.retry(releases.settle(endpoint, release, { _tag: "Failed", reason }), Schedule.spaced("1 second"))
      }).pipe(Effect.ignore)
    }
  }
})

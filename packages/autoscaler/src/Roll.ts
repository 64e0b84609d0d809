/**
 * Ends the roll of a release: when its first worker is ready, or does not start.
 *
 * ```
 *   the release's first worker --takes part--> proven: active; the autoscaler replaces the previous workers
 *                               `-fails-----> failed: the endpoint returns to the previous release, which keeps serving
 * ```
 *
 * The end is stored, so a restarted platform continues an unfinished roll and does not repeat a failed one. One failed start ends the
 * roll: deploying again tries again.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { EndpointTarget } from "./WorkerTemplate.ts"

export interface Roll {
  /** Whether the endpoint's release is being tried, and this is its fingerprint. */
  readonly isTrying: (target: EndpointTarget | undefined, fingerprint: string) => boolean
  /** Whether the release was tried and failed. No further worker of it starts. */
  readonly hasFailed: (target: EndpointTarget) => boolean
  /** Stores that the release is active. Returns the target after the roll; the present one when that cannot be stored now. */
  readonly proven: (target: EndpointTarget) => Effect.Effect<EndpointTarget>
  /** Records that the release failed. The returned effect stores it; it retries until it succeeds. */
  readonly failed: (target: EndpointTarget, reason: string) => Effect.Effect<void>
}

/** The rolls of one endpoint. */
export const make = Effect.fnUntraced(function*(endpoint: EndpointId): Effect.fn.Return<Roll, never, ReleaseStore> {
  const releases = yield* ReleaseStore
  /** The last release that failed. */
  let failed: number | undefined

  const isRolling = ({ endpoint: { release }, previous }: EndpointTarget): boolean => previous !== undefined && release !== failed

  return {
    isTrying: (target, fingerprint) =>
      target !== undefined && isRolling(target) && fingerprint === target.current.fingerprint &&
      fingerprint !== target.previous?.fingerprint,
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
    failed: ({ endpoint: { previousRelease, release } }, reason) => {
      failed = release
      return release === undefined ? Effect.void : Effect.gen(function*() {
        yield* Effect.logError(
          `Release ${release} of endpoint ${endpoint} did not start, and release ${previousRelease} keeps serving. ${reason}`
        )
        yield* Effect.retry(releases.settle(endpoint, release, { _tag: "Failed", reason }), Schedule.spaced("1 second"))
      }).pipe(Effect.ignore)
    }
  }
})

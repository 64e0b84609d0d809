/**
 * Whether the platform is ready, for `GET /readyz`.
 *
 * A check claims jobs of an endpoint that cannot exist. It finds none, but passes through the same stages as every claim: the write queue, a
 * transaction, and the checks that the database file is in place. It writes nothing, so it needs no sync.
 */
import { EndpointId } from "@stint/contract/Ids"
import { JobStore } from "@stint/store/JobStore"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** How long a result is reused. Anyone can send this request without a key, so the number of checks must not depend on the number of requests. */
const REUSE = "1 second"

/** A store that takes longer counts as unavailable. */
const LIMIT = "5 seconds"

const NOWHERE = EndpointId.make("0-readyz-0")

export class Readiness extends Context.Service<Readiness, {
  /** Why the platform is not ready; undefined if it is. */
  readonly check: Effect.Effect<string | undefined>
  /** Reports the platform as not ready from now on, because it is shutting down. */
  readonly close: Effect.Effect<void>
}>()("@stint/server/Readiness") {}

export const layer: Layer.Layer<Readiness, never, JobStore> = Layer.effect(
  Readiness,
  Effect.gen(function*() {
    const jobs = yield* JobStore
    const claim = Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      yield* jobs.claim(NOWHERE, 1, { _tag: "Claim", now, worker: "readyz" })
    })
    const check = yield* claim.pipe(
      Effect.as(undefined),
      Effect.timeout(LIMIT),
      Effect.catchTag("TimeoutError", () => Effect.succeed(`The store did not respond within ${LIMIT}.`)),
      Effect.catch(() => Effect.succeed("The store does not work, so workers cannot claim jobs.")),
      Effect.cachedWithTTL(REUSE)
    )
    let closing = false
    return {
      check: Effect.suspend(() => closing ? Effect.succeed("The platform is shutting down.") : check),
      close: Effect.sync(() => {
        closing = true
      })
    }
  })
)

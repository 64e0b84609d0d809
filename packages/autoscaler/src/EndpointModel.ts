/**
 * The model of one endpoint's workers. A worker is started only after its model is available. Otherwise it would only wait, and would count as a
 * failed start.
 */
import { Models, type ModelState } from "@stint/models/Models"
import { ModelMissing, PoolError } from "@stint/pool/PoolError"
import type { WorkerModel } from "@stint/pool/WorkerModel"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { WorkerTemplate } from "./WorkerTemplate.ts"

export interface EndpointModel {
  /**
   * The state of a template's model. Starts its download if needed. `onSettled` runs when a download has ended, in a child of the calling fiber.
   */
  readonly state: (template: WorkerTemplate) => Effect.Effect<ModelState>
  /** The model for a worker. It is not removed from the cache while the scope is open. */
  readonly hold: (endpoint: WorkerTemplate["endpoint"]) => Effect.Effect<WorkerModel | undefined, PoolError, Scope.Scope>
}

const READY: Effect.Effect<ModelState> = Effect.succeed({ _tag: "Ready" })
const NONE: Effect.Effect<undefined> = Effect.succeed(undefined)

export const make = Effect.fnUntraced(function*(onSettled: Effect.Effect<void>): Effect.fn.Return<EndpointModel> {
  const models = yield* Models
  let isAwaiting = false

  const stateOf = Effect.fnUntraced(function*({ endpoint }: WorkerTemplate) {
    const state = yield* models.prepare(endpoint)
    if (state._tag === "Downloading" && !isAwaiting) {
      isAwaiting = true
      yield* models.settled(endpoint).pipe(
        Effect.ensuring(Effect.suspend(() => {
          isAwaiting = false
          return onSettled
        })),
        Effect.forkChild
      )
    }
    return state
  })

  return {
    state: (template) => template.endpoint.model === undefined ? READY : stateOf(template),
    hold: (endpoint) =>
      endpoint.model === undefined
        ? NONE
        : Effect.mapError(
          models.hold(endpoint),
          ({ message }) => new PoolError({ reason: new ModelMissing({ problem: message }) })
        )
  }
})

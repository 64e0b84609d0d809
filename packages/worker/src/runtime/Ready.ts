/**
 * Completes when the first take is sent. Work that is not needed before then waits for it, which shortens a cold start.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Layer from "effect/Layer"

/** Completed by the take loop. */
export class Ready extends Context.Service<Ready, Deferred.Deferred<void>>()("@stint/worker/Ready") {}

/** Not completed yet. */
export const layer: Layer.Layer<Ready> = Layer.sync(Ready, () => Deferred.makeUnsafe<void>())

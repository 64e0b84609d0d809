/**
 * The moment when the first take is on its way: what can wait until then does, so that a cold start is short.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Layer from "effect/Layer"

/** Done by the loop that takes jobs, awaited by whatever need not be there before it. */
export class Ready extends Context.Service<Ready, Deferred.Deferred<void>>()("@stint/worker/Ready") {}

/** The moment that has not come yet. */
export const layer: Layer.Layer<Ready> = Layer.sync(Ready, () => Deferred.makeUnsafe<void>())

/**
 * The one place that says: this worker is to stop.
 *
 * Whoever wants it to stop (a signal, a result with `refresh_worker`, the end of local test mode) asks here; {@link
 * file://./Worker.ts} waits here and then closes the worker's scope, which is what stops the duties, in order.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Why the worker is to stop. */
export interface Reason {
  /** For the log, as the rest of a sentence: "SIGTERM", "the handler asked for a fresh worker". */
  readonly reason: string
  /** What the process exits with. */
  readonly exitCode: number
}

/** The request to stop, and the waiting for it. */
export class Shutdown extends Context.Service<Shutdown, {
  /** Asks for the end. The first one counts. */
  readonly request: (reason: Reason) => Effect.Effect<void>
  /** Waits for the first request. */
  readonly requested: Effect.Effect<Reason>
}>()("@stint/worker/Shutdown") {}

export const layer: Layer.Layer<Shutdown> = Layer.sync(Shutdown, () => {
  const asked = Deferred.makeUnsafe<Reason>()
  return {
    request: (reason) => Effect.asVoid(Deferred.succeed(asked, reason)),
    requested: Deferred.await(asked)
  }
})

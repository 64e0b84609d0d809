/**
 * The request to shut this worker down.
 *
 * A signal, a result with `refresh_worker`, or the end of local test mode requests the shutdown. {@link file://./Worker.ts} waits for it
 * and then closes the worker's scope, which stops the layers in order.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Why the worker shuts down. */
export interface Reason {
  /** For the log line `Stopping: <reason>.`, such as "SIGTERM". */
  readonly reason: string
  /** The exit code of the process. */
  readonly exitCode: number
}

/** Lets callers request a shutdown and wait for the request. */
export class Shutdown extends Context.Service<Shutdown, {
  /** Requests the shutdown. Only the first request counts. */
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

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
  /** The process's exit code. */
  readonly exitCode: number
  /**
   * After this time the process exits without the jobs that are still running, and does not return them: one of them may have caused the
   * shutdown, so the platform must count the attempt. Milliseconds. Default: `SHUTDOWN_GRACE` applies, and unfinished jobs are returned.
   */
  readonly abandonAfter?: number
}

/** Lets callers request a shutdown and wait for the request. */
export class Shutdown extends Context.Service<Shutdown, {
  /** Requests the shutdown. Only the first request counts. */
  readonly request: (reason: Reason) => Effect.Effect<void>
  /** Waits for the first request. */
  readonly requested: Effect.Effect<Reason>
  /** The first request; undefined when there was none. */
  readonly current: () => Reason | undefined
}>()("@stint/worker/Shutdown") {}

/** A service that has not received a request. */
export const make = (): Shutdown["Service"] => {
  const asked = Deferred.makeUnsafe<Reason>()
  let current: Reason | undefined
  return {
    request: (reason) =>
      Effect.suspend(() => {
        current ??= reason
        return Effect.asVoid(Deferred.succeed(asked, reason))
      }),
    requested: Deferred.await(asked),
    current: () => current
  }
}

export const layer: Layer.Layer<Shutdown> = Layer.sync(Shutdown, make)

/**
 * Handing a job to a worker over a connection that may be gone.
 *
 * The protocol has no acknowledgement (docs/spec/worker-protocol.md#acknowledgement): the platform writes the job and hopes. What can be known is
 * used:
 *
 * ```
 *   claimed --> [ one turn of the event loop ] --> written --> [ watched for a second ] --> the worker's
 *                 | the worker had hung up            | the connection was reset: bytes were left unread
 *                 +-------------------> back to the queue, unstarted <---+
 * ```
 *
 * The watch ends with the next request on the connection: who sends one has read the answer before it.
 *
 * A connection that ends in order after the job was written says nothing: a worker that makes a connection for each call does just that.
 * What is lost all the same comes back with the worker's next take, if it says there that it holds nothing, or with the end of the lease.
 */
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import { IncomingMessage } from "node:http"
import type { Socket } from "node:net"

/** How long after a job was written a reset of the connection means that it did not arrive. */
const WATCH_MILLIS = 1_000

/** Lets the event loop look at what has arrived: a hang-up that is there already interrupts this request. */
const turn = Effect.callback<void>((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})

/** The answer that was last written to a connection. */
interface Written {
  readonly returnJobs: Effect.Effect<void>
  readonly until: number
  /** Bytes that had come over the connection by then. */
  readonly read: number
}

/**
 * To be run between the claim of jobs and the answer that carries them. `returnJobs` is run when the answer did not arrive; the request is
 * interrupted where that is known at once.
 */
export type DeliveryWatch = (
  request: HttpServerRequest.HttpServerRequest,
  returnJobs: Effect.Effect<void>
) => Effect.Effect<void>

/** Hand-overs of one server. */
export const make: Effect.Effect<DeliveryWatch> = Effect.sync(() => {
  // One listener a connection: a worker uses one for thousands of takes.
  const last = new WeakMap<Socket, Written>()
  return Effect.fnUntraced(function*(request, returnJobs) {
    yield* Effect.interruptible(turn).pipe(Effect.onInterrupt(() => returnJobs))
    const { source } = request
    // Served by something else than Node, there is no connection to watch.
    if (!(source instanceof IncomingMessage)) return
    const { socket } = source
    // The client's FIN was read, and Node has answered with its own: what is written now goes nowhere.
    if (!socket.writable) {
      yield* returnJobs
      return yield* Effect.interrupt
    }
    if (!last.has(socket)) {
      socket.once("close", (hadError) => {
        const written = last.get(socket)
        if (!hadError || written === undefined || socket.bytesRead > written.read) return
        if (performance.now() < written.until) Effect.runFork(written.returnJobs)
      })
    }
    last.set(socket, { returnJobs, until: performance.now() + WATCH_MILLIS, read: socket.bytesRead })
  })
})

/**
 * Returns jobs to the queue when the response that contains them did not reach the worker.
 *
 * The protocol has no acknowledgement (docs/spec/worker-protocol.md#acknowledgement). The platform infers a lost response from the
 * connection:
 *
 * ```
 *   claimed --> [ one turn of the event loop ] --> written --> [ watched for a second ] --> assumed delivered
 *                 | the worker disconnected           | the connection was reset: bytes were left unread
 *                 +-------------------> back to the queue, unstarted <---+
 * ```
 *
 * The watch ends with the next request on the connection, because a client that sends another request has read the previous response.
 *
 * If a connection closes normally after the job was written, that proves nothing: a worker that opens a connection per call closes it in
 * the same way. A job that is lost despite the watch returns to the queue with the worker's next take, if that take reports no job in
 * progress, or when the lease expires.
 */
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import { IncomingMessage } from "node:http"
import type { Socket } from "node:net"

/** If the connection is reset within this time after the write, the job did not arrive. */
const WATCH_MILLIS = 1_000

/** Yields to the event loop, so that a disconnect already received interrupts this request. */
const turn = Effect.callback<void>((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})

/** The last response written to a connection. */
interface Written {
  readonly returnJobs: Effect.Effect<void>
  readonly until: number
  /** The number of bytes received over the connection at that time. */
  readonly read: number
}

/**
 * Must run between claiming jobs and sending the response that contains them. Runs `returnJobs` if the response does not arrive, and
 * interrupts the request if that is known before the response is written.
 */
export type DeliveryWatch = (
  request: HttpServerRequest.HttpServerRequest,
  returnJobs: Effect.Effect<void>
) => Effect.Effect<void>

/** The delivery watch of one server. */
export const make: Effect.Effect<DeliveryWatch> = Effect.sync(() => {
  // One listener per connection: a worker uses a connection for thousands of takes.
  const last = new WeakMap<Socket, Written>()
  return Effect.fnUntraced(function*(request, returnJobs) {
    yield* Effect.interruptible(turn).pipe(Effect.onInterrupt(() => returnJobs))
    const { source } = request
    // Without Node there is no connection to watch.
    if (!(source instanceof IncomingMessage)) return
    const { socket } = source
    // The client closed the connection and Node has closed its side: a write would be discarded.
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

/**
 * Chooses the port of `stint dev`.
 */
import * as Effect from "effect/Effect"
import { createServer } from "node:net"

/** The number of ports to try before the operating system chooses one. */
const TRIES = 20

const isFree = (port: number, host: string): Effect.Effect<boolean> =>
  Effect.callback((resume) => {
    const server = createServer()
    // Any other error, such as a host that is not on this machine, is reported when the platform starts.
    server.once("error", (error) => resume(Effect.succeed(!("code" in error) || error.code !== "EADDRINUSE")))
    server.listen({ port, host, exclusive: true }, () => server.close(() => resume(Effect.succeed(true))))
  })

/** The first free port from `first` on; 0, for any free port, when many in a row are taken. */
export const from = Effect.fn("FreePort.from")(function*(first: number, host: string) {
  for (let port = first; port < first + TRIES; port++) if (yield* isFree(port, host)) return port
  return 0
})

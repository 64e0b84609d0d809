/**
 * Makes the platform reachable from a container that has no network.
 *
 * ```
 *   container's network namespace            host
 *   worker --> 127.0.0.1:PORT  ===socket===> platform's process --> 127.0.0.1:4600
 *              nothing else, except its own loopback
 * ```
 *
 * A socket belongs to the network namespace in which it was created, whichever process has it open. A short-lived helper enters the
 * namespace, listens, passes the socket to the platform and exits. The container therefore needs no route to the host, the platform
 * needs no further listening address, and no helper keeps running.
 */
import { PoolError, PoolUnavailable } from "@stint/pool/PoolError"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import { connect, Server, type Socket } from "node:net"
import process from "node:process"
import { pipeline } from "node:stream"

/** Runs in the container's network namespace, as a program of the host. */
const HELPER = `
const server = require("node:net").createServer()
server.on("error", (error) => process.send({ problem: error.message }, () => process.exit(1)))
server.listen({ host: "127.0.0.1", port: Number(process.argv[1]), backlog: 511 }, () =>
  process.send({}, server, () => process.exit(0)))
`

/** How long the helper may take. */
const HELPER_LIMIT = "20 seconds"

const failed = (problem: string) =>
  new PoolError({
    reason: new PoolUnavailable({
      problem: `the platform cannot enter the network of the container (${problem})`,
      hint:
        "This needs a platform that runs as root on the engine's machine, and the program nsenter (package util-linux). Otherwise set " +
        "the endpoint's network to host, which does not isolate the network."
    })
  })

/** Listens on 127.0.0.1 in the network namespace of a process. */
const listenIn = (pid: number, port: number): Effect.Effect<Server, PoolError> =>
  Effect.callback<Server, PoolError>((resume) => {
    const child = spawn("nsenter", [`--net=/proc/${pid}/ns/net`, process.execPath, "-e", HELPER, String(port)], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      env: {}
    })
    let words = ""
    let server: Server | undefined
    child.stderr?.on("data", (data: Buffer) => (words += data.toString()))
    child.once("error", (error) => resume(Effect.fail(failed(error.message))))
    child.on("message", (message: unknown, handle) => {
      if (handle instanceof Server) server = handle
      if (typeof message === "object" && message !== null && "problem" in message) words += String(message.problem)
    })
    // Only now, because the helper accepts connections until it exits.
    child.once("close", (code) =>
      resume(
        server === undefined ? Effect.fail(failed(words.trim() || `the helper exited with code ${code}`)) : Effect.succeed(server)
      ))
    return Effect.sync(() => child.kill("SIGKILL"))
  }).pipe(
    Effect.timeoutOrElse({
      duration: HELPER_LIMIT,
      orElse: () => Effect.fail(failed(`the helper did not listen within ${HELPER_LIMIT}`))
    })
  )

/** Connects two sockets until one of them ends. */
const join = (one: Socket, other: Socket): void => {
  one.setNoDelay(true)
  other.setNoDelay(true)
  // A broken connection ends the other one, too.
  pipeline(one, other, one, () => undefined)
}

/** Forwards connections to 127.0.0.1:`port` in the network of process `pid` to `target`, until the scope closes. */
export const open = (
  pid: number,
  port: number,
  target: { readonly host: string; readonly port: number }
): Effect.Effect<void, PoolError, Scope.Scope> =>
  Effect.asVoid(Effect.acquireRelease(
    Effect.map(listenIn(pid, port), (server) => {
      const open = new Set<Socket>()
      server.on("connection", (socket) => {
        open.add(socket)
        socket.once("close", () => open.delete(socket))
        join(socket, connect(target))
      })
      return { server, open }
    }),
    ({ open, server }) =>
      Effect.sync(() => {
        server.close()
        for (const socket of open) socket.destroy()
      })
  ))

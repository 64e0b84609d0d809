import { describe, expect, it } from "@effect/vitest"
import { LogMemory } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { createServer } from "node:net"
import * as NetworkCheck from "../src/NetworkCheck.ts"
import { reason } from "./CheckHarness.ts"

const HOST = "127.0.0.1"

/** A server that counts its connections and listens on demand. */
const server = Effect.acquireRelease(
  Effect.sync(() => {
    const listening = createServer((socket) => {
      connections.push(socket.remotePort)
      socket.on("error", () => {})
      socket.on("end", () => socket.end())
    })
    const connections: Array<number | undefined> = []
    const listen = (port: number) =>
      new Promise<number>((resolve, reject) => {
        listening.once("error", reject)
        listening.listen(port, HOST, () => {
          const address = listening.address()
          resolve(typeof address === "object" && address !== null ? address.port : 0)
        })
      })
    const close = () => new Promise<void>((resolve) => listening.close(() => resolve()))
    return { connections, listen, close }
  }),
  ({ close }) => Effect.promise(close)
)

// docs/spec/fitness-checks.md#automatic-checks
describe("the check \"network\"", () => {
  it.live("passes when the platform accepts a connection", () =>
    Effect.gen(function*() {
      const { connections, listen } = yield* server
      const port = yield* Effect.promise(() => listen(0))
      expect(yield* reason(NetworkCheck.check({ host: HOST, port }))).toBeUndefined()
      expect(connections).toHaveLength(1)
    }))

  it.live("fails with the address and the error when the connection is refused", () =>
    Effect.gen(function*() {
      const { close, listen } = yield* server
      const port = yield* Effect.promise(() => listen(0))
      yield* Effect.promise(close)
      expect(yield* reason(NetworkCheck.check({ host: HOST, port, limit: 0.3, setting: "PLATFORM_NETWORK_CHECK_TIMEOUT" }))).toBe(
        `no connection to the platform at ${HOST}:${port} within 0.3 s (PLATFORM_NETWORK_CHECK_TIMEOUT): ECONNREFUSED`
      )
    }))

  it.live("retries while the platform restarts", () => {
    const log = LogMemory.make()
    return Effect.gen(function*() {
      const { close, listen } = yield* server
      const port = yield* Effect.promise(() => listen(0))
      yield* Effect.promise(close)
      const checking = yield* Effect.forkChild(reason(NetworkCheck.check({ host: HOST, port, limit: 20 })))
      yield* log.until(/does not accept connections yet \(ECONNREFUSED\)\. Retrying\.$/)
      yield* Effect.promise(() => listen(port))
      expect(yield* Fiber.join(checking)).toBeUndefined()
      expect(log.lines).toHaveLength(1)
    }).pipe(Effect.provide(log.layer))
  })

  it.live("fails when the host name is unknown", () =>
    Effect.gen(function*() {
      expect(yield* reason(NetworkCheck.check({ host: "no-such-host.invalid", port: 80, limit: 0.3 }))).toMatch(/within 0\.3 s: /)
    }))
})

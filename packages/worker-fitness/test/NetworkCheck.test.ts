import { describe, expect, it } from "@effect/vitest"
import { LogMemory } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { createServer } from "node:net"
import * as NetworkCheck from "../src/NetworkCheck.ts"
import { reason } from "./CheckHarness.ts"

const HOST = "127.0.0.1"

/** A server that counts its connections, and is told when to listen. */
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
  it.live("passes where the platform's address takes a connection", () =>
    Effect.gen(function*() {
      const { connections, listen } = yield* server
      const port = yield* Effect.promise(() => listen(0))
      expect(yield* reason(NetworkCheck.check({ host: HOST, port }))).toBeUndefined()
      expect(connections).toHaveLength(1)
    }))

  it.live("fails where nobody listens, and says where and why", () =>
    Effect.gen(function*() {
      const { close, listen } = yield* server
      const port = yield* Effect.promise(() => listen(0))
      yield* Effect.promise(close)
      expect(yield* reason(NetworkCheck.check({ host: HOST, port, limit: 0.3, setting: "PLATFORM_NETWORK_CHECK_TIMEOUT" }))).toBe(
        `no connection to the platform at ${HOST}:${port} within 0.3 s (PLATFORM_NETWORK_CHECK_TIMEOUT): ECONNREFUSED`
      )
    }))

  it.live("bears a platform that restarts", () => {
    const log = LogMemory.make()
    return Effect.gen(function*() {
      const { close, listen } = yield* server
      const port = yield* Effect.promise(() => listen(0))
      yield* Effect.promise(close)
      const checking = yield* Effect.forkChild(reason(NetworkCheck.check({ host: HOST, port, limit: 20 })))
      yield* log.until(/takes no connection yet: ECONNREFUSED\. Trying on\.$/)
      yield* Effect.promise(() => listen(port))
      expect(yield* Fiber.join(checking)).toBeUndefined()
      expect(log.lines).toHaveLength(1)
    }).pipe(Effect.provide(log.layer))
  })

  it.live("fails where the name is unknown", () =>
    Effect.gen(function*() {
      expect(yield* reason(NetworkCheck.check({ host: "no-such-host.invalid", port: 80, limit: 0.3 }))).toMatch(/within 0\.3 s: /)
    }))
})

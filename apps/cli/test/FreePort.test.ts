import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { createServer } from "node:net"
import * as FreePort from "../src/dev/FreePort.ts"

const listen = Effect.acquireRelease(
  Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
    const server = createServer()
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      resume(Effect.succeed({ port, close: () => server.close() }))
    })
  }),
  ({ close }) => Effect.sync(close)
)

describe("FreePort", () => {
  it.effect("returns a later port when the first one is taken, and the first one when it is free", () =>
    Effect.gen(function*() {
      const taken = yield* Effect.scoped(Effect.gen(function*() {
        const { port } = yield* listen
        const chosen = yield* FreePort.from(port, "127.0.0.1")
        assert.notStrictEqual(chosen, port)
        return port
      }))
      assert.strictEqual(yield* FreePort.from(taken, "127.0.0.1"), taken)
    }))
})

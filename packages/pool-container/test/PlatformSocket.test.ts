import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFile, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { networkInterfaces } from "node:os"
import process from "node:process"
import { promisify } from "node:util"
import * as PlatformSocket from "../src/PlatformSocket.ts"

const run = promisify(execFile)

const canUnshare = process.platform === "linux" && process.getuid?.() === 0 &&
  spawnSync("unshare", ["--net", "ip", "link", "set", "lo", "up"]).status === 0

/** A process in its own network, as an engine creates one for a container. */
const isolated = Effect.acquireRelease(
  Effect.promise(async () => {
    const child = spawn("unshare", ["--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 3600"], {
      stdio: ["ignore", "pipe", "inherit"]
    })
    await once(child.stdout, "data")
    return child.pid ?? 0
  }),
  (pid) => Effect.sync(() => process.kill(pid, "SIGKILL"))
)

/** A server on all addresses of this machine that responds with its name. */
const server = (name: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const listening = createServer((request, response) => {
        let body = ""
        request.on("data", (data: Buffer) => (body += data.toString()))
        request.on("end", () => response.end(`${name} ${body.length}`))
      }).listen(0, "0.0.0.0")
      await once(listening, "listening")
      return { listening, port: (listening.address() as AddressInfo).port }
    }),
    ({ listening }) =>
      Effect.sync(() => {
        listening.closeAllConnections()
        listening.close()
      })
  )

/** Sends a request from the network of the process. Returns the response, or the error's code. */
const askFrom = (pid: number, url: string, length: number) =>
  Effect.promise(async () => {
    const program =
      `fetch(${JSON.stringify(url)}, { method: "POST", body: "x".repeat(${length}), signal: AbortSignal.timeout(20_000) })` +
      `.then((response) => response.text(), (error) => error.cause?.code ?? error.name).then((text) => process.stdout.write(text))`
    return (await run("nsenter", [`--net=/proc/${pid}/ns/net`, process.execPath, "-e", program])).stdout
  })

describe("PlatformSocket", () => {
  it.live.skipIf(!canUnshare)(
    "makes one address reachable from a network of its own, and nothing else of the host",
    () =>
      Effect.gen(function*() {
        const pid = yield* isolated
        const platform = yield* server("platform")
        const other = yield* server("other")
        yield* PlatformSocket.open(pid, 4600, { host: "127.0.0.1", port: platform.port })
        assert.strictEqual(yield* askFrom(pid, "http://127.0.0.1:4600/", 3_000_000), "platform 3000000")
        const addresses = Object.values(networkInterfaces()).flatMap((all = []) => all).filter(({ family }) => family === "IPv4")
        for (const { address } of addresses) {
          for (const { port } of [platform, other]) {
            assert.match(yield* askFrom(pid, `http://${address}:${port}/`, 1), /^(?:ECONNREFUSED|ENETUNREACH)$/)
          }
        }
      }).pipe(Effect.scoped)
  )

  it.live.skipIf(!canUnshare)("closes with its scope", () =>
    Effect.gen(function*() {
      const pid = yield* isolated
      const platform = yield* server("platform")
      yield* Effect.scoped(PlatformSocket.open(pid, 4600, { host: "127.0.0.1", port: platform.port }))
      assert.strictEqual(yield* askFrom(pid, "http://127.0.0.1:4600/", 1), "ECONNREFUSED")
    }).pipe(Effect.scoped))

  it.live("says what it needs when the process cannot be entered", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Effect.scoped(PlatformSocket.open(0, 4600, { host: "127.0.0.1", port: 1 })))
      assert.match(error.message, /cannot enter the network of the container \(.+\)\. This needs a platform that runs as root/)
    }))
})

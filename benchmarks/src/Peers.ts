/**
 * The peers: other people's queues, in `benchmarks/peers`, which is no part of the workspace. A clone installs without them; a benchmark
 * that wants them installs them here, once.
 */
import { spawn, spawnSync } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import process from "node:process"

/** Where they are. */
export const PEERS = resolve(import.meta.dirname, "../peers")

/** Installs what their lockfile names, without running anybody's scripts. False, and a line that says why, where that cannot be done. */
export const installPeers = (): boolean => {
  const { error, status, stderr, stdout } = spawnSync("npx", ["-y", "pnpm@12", "install", "--frozen-lockfile"], {
    cwd: PEERS,
    encoding: "utf8"
  })
  if (status === 0) return true
  process.stdout.write(
    `The peers are left out: they could not be installed in benchmarks/peers.\n${error?.message ?? stdout + stderr}\n`
  )
  return false
}

/** A port of the loopback that nobody listens on now. */
export const freePort = (): Promise<number> =>
  new Promise((found, failed) => {
    const server = createServer()
    server.once("error", failed)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => found(typeof address === "object" && address !== null ? address.port : 0))
    })
  })

/** A server that was started as a child. */
export interface Server {
  readonly port: number
  readonly pid: number
  readonly end: () => Promise<void>
}

/** Whether there is a `redis-server`. */
export const hasRedis = (): boolean => spawnSync("redis-server", ["--version"]).status === 0

/** Starts Redis with data of its own. `always` survives power loss (D2), `everysec` a killed process (D1). */
export const startRedis = async (appendfsync: "always" | "everysec"): Promise<Server> => {
  const port = await freePort()
  const folder = await mkdtemp(join(tmpdir(), "stint-redis-"))
  const settings = ["--appendonly", "yes", "--appendfsync", appendfsync, "--save", "", "--maxmemory-policy", "noeviction"]
  const child = spawn("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, ...settings], {
    stdio: ["ignore", "pipe", "ignore"]
  })
  // Also where the benchmark itself fails.
  process.once("exit", () => child.kill())
  await new Promise<void>((up, failed) => {
    let text = ""
    child.once("error", failed)
    child.once("exit", (code) => failed(new Error(`redis-server ended with ${code}:\n${text}`)))
    child.stdout.on("data", (data: Buffer) => {
      text += data.toString()
      if (text.includes("Ready to accept connections")) up()
    })
  })
  return {
    port,
    pid: child.pid ?? 0,
    end: async () => {
      const ended = new Promise((gone) => child.once("exit", gone))
      child.kill("SIGTERM")
      await ended
      await rm(folder, { recursive: true, force: true })
    }
  }
}

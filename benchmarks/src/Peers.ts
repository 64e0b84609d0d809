/**
 * The peers: third-party queues in `benchmarks/peers`. The folder is not part of the workspace, so a clone installs without them. The first
 * benchmark that needs them installs them.
 */
import { spawn, spawnSync } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import process from "node:process"

/** The folder of the peers. */
export const PEERS = resolve(import.meta.dirname, "../peers")

/** Installs the peers from their lockfile, without install scripts. Returns false and prints the reason when the installation fails. */
export const installPeers = (): boolean => {
  const { error, status, stderr, stdout } = spawnSync("npx", ["-y", "pnpm@12", "install", "--frozen-lockfile"], {
    cwd: PEERS,
    encoding: "utf8"
  })
  if (status === 0) return true
  process.stdout.write(
    `Skipping the peers: installing them in benchmarks/peers failed.\n${error?.message ?? stdout + stderr}\n`
  )
  return false
}

/** A free loopback port. */
export const freePort = (): Promise<number> =>
  new Promise((found, failed) => {
    const server = createServer()
    server.once("error", failed)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => found(typeof address === "object" && address !== null ? address.port : 0))
    })
  })

/** A server in a child process. */
export interface Server {
  readonly port: number
  readonly pid: number
  readonly end: () => Promise<void>
}

/** Whether `redis-server` is installed. */
export const hasRedis = (): boolean => spawnSync("redis-server", ["--version"]).status === 0

/** Starts Redis with its own data folder. `always` survives a power failure (D2), and `everysec` survives a killed process (D1). */
export const startRedis = async (appendfsync: "always" | "everysec"): Promise<Server> => {
  const port = await freePort()
  const folder = await mkdtemp(join(tmpdir(), "stint-redis-"))
  const settings = ["--appendonly", "yes", "--appendfsync", appendfsync, "--save", "", "--maxmemory-policy", "noeviction"]
  const child = spawn("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, ...settings], {
    stdio: ["ignore", "pipe", "ignore"]
  })
  // Stops Redis even when the benchmark fails.
  process.once("exit", () => child.kill())
  await new Promise<void>((up, failed) => {
    let text = ""
    child.once("error", failed)
    child.once("exit", (code) => failed(new Error(`redis-server exited with code ${code}:\n${text}`)))
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

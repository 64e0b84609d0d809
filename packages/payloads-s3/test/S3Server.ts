/**
 * A real S3 server in a process of its own, on a free local port.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** The only key that the server knows. */
export const KEY = { accessKeyId: "S3RVER", secretAccessKey: "S3RVER" } as const

/** A server that runs. */
export interface S3Server {
  readonly url: string
  readonly stop: () => Promise<void>
}

/** Starts a server with these buckets. Its user stops it in the end. */
export const start = async (...buckets: ReadonlyArray<string>): Promise<S3Server> => {
  const folder = await mkdtemp(join(tmpdir(), "stint-s3-"))
  const child = spawn(process.execPath, [join(import.meta.dirname, "fixtures/s3rver.ts"), folder, ...buckets], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: process.env["PATH"], NODE_NO_WARNINGS: "1" }
  })
  const closed = once(child, "close")
  const port = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding("utf8").once("data", (text: string) => resolve(text.trim()))
    child.once("error", reject)
    child.once("exit", (code) => reject(new Error(`the S3 server ended with ${code}`)))
  })
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      child.stdin.end()
      await closed
      await rm(folder, { recursive: true, force: true })
    }
  }
}

/**
 * A real S3 server, in a child process, on a free local port.
 *
 * It is `@20minutes/s3rver`, the maintained fork of `s3rver`. The original accepts any secret for a known key, so tests could not show
 * what happens with a wrong secret. The child process runs this same file.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** The only key that the server accepts. */
export const KEY = { accessKeyId: "S3RVER", secretAccessKey: "S3RVER" } as const

/** A running server. */
export interface S3Server {
  readonly url: string
  /** Stops the server and removes its files. */
  readonly stop: () => Promise<void>
}

/** The server's settings. */
export interface Options {
  /** The names of its buckets. */
  readonly buckets: ReadonlyArray<string>
  /**
   * Accept wrong signatures. Default: false. Needed to list a bucket: in that case the server checks the signature against the path
   * without its trailing slash.
   */
  readonly allowMismatchedSignatures?: boolean
}

/** Starts a server. The caller must stop it. */
export const start = async (options: Options): Promise<S3Server> => {
  const directory = await mkdtemp(join(tmpdir(), "stint-s3-"))
  const child = spawn(process.execPath, [import.meta.filename, directory, JSON.stringify(options)], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: process.env["PATH"], NODE_NO_WARNINGS: "1" }
  })
  const closed = once(child, "close")
  const port = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding("utf8").once("data", (text: string) => resolve(text.trim()))
    child.once("error", reject)
    child.once("exit", (code) => reject(new Error(`the S3 server exited with code ${code}`)))
  })
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      child.stdin.end()
      await closed
      await rm(directory, { recursive: true, force: true })
    }
  }
}

/** The child process: writes its port to standard output, and exits when standard input ends. */
const serve = async (directory: string, { allowMismatchedSignatures = false, buckets }: Options) => {
  const { default: S3rver } = await import("@20minutes/s3rver")
  const server = new S3rver({
    address: "127.0.0.1",
    port: 0,
    silent: true,
    allowMismatchedSignatures,
    directory,
    configureBuckets: buckets.map((name) => ({ name }))
  })
  const { port } = await server.run()
  process.stdout.write(`${port}\n`)
  process.stdin.on("end", () => process.exit(0)).resume()
}

const [, main, directory, options] = process.argv
if (main === import.meta.filename && directory !== undefined && options !== undefined) {
  await serve(directory, JSON.parse(options))
}

/**
 * Starts the processes of the HTTP route benchmarks: servers and the load generator.
 */
import * as Schema from "effect/Schema"
import { type ChildProcess, fork } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { CpuTime, Listening, type Load, Measurement } from "./HttpMessages.ts"

/** Sends a request, if there is one, and returns the process's next message. */
const nextMessage = <S extends Schema.ConstraintDecoder<unknown>>(
  child: ChildProcess,
  schema: S,
  request?: Load | "used"
): Promise<S["Type"]> =>
  new Promise((resolve, reject) => {
    const fail = (code: number | null) => reject(new Error(`a process of the benchmark exited with code ${code}`))
    child.once("exit", fail)
    child.once("message", (message) => {
      child.off("exit", fail)
      resolve(Schema.decodeUnknownSync(schema)(message))
    })
    if (request !== undefined) child.send(request)
  })

const start = (file: string, args: ReadonlyArray<string> = [], env: { readonly [name: string]: string } = {}): ChildProcess =>
  fork(file, args, { stdio: ["ignore", "ignore", "inherit", "ipc"], env: { ...process.env, ...env } })

const end = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    child.once("exit", () => resolve())
    child.disconnect()
  })

/** A running server. */
export interface HttpServer {
  readonly listening: Listening
  /** CPU time since its start, in microseconds. */
  readonly cpu: () => Promise<typeof CpuTime.Type>
  /** Stops the server and removes its data. */
  readonly end: () => Promise<void>
}

const SERVER = fileURLToPath(import.meta.resolve("./http-server.ts"))

/** `subject`: see `http-server.ts`. `file`: the `http-server.ts` of another checkout. Default: the one in this checkout. */
export const startServer = async (subject: string, file: string = SERVER): Promise<HttpServer> => {
  const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
  const server = start(file, [subject], { PORT: "0", STINT_DATA_DIR: folder })
  return {
    listening: await nextMessage(server, Listening),
    cpu: () => nextMessage(server, CpuTime, "used"),
    end: async () => {
      await end(server)
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
    }
  }
}

/** A running load generator. */
export interface LoadGenerator {
  readonly run: (load: Load) => Promise<Measurement>
  readonly end: () => Promise<void>
}

export const startLoad = (): LoadGenerator => {
  const child = start(fileURLToPath(import.meta.resolve("./http-load.ts")))
  return { run: (load) => nextMessage(child, Measurement, load), end: () => end(child) }
}

/** Puts a load on a server. `cpu` is the server's CPU time. */
export const measureLoad = async (load: LoadGenerator, server: HttpServer, options: Omit<Load, keyof Listening>) => {
  const before = await server.cpu()
  const measured = await load.run({ ...server.listening, ...options })
  const after = await server.cpu()
  return { measured, cpu: { user: after.user - before.user, system: after.system - before.system } }
}

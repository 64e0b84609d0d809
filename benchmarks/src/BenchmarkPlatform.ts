/**
 * A real platform in a separate process, with a free port and its own data folder.
 */
import { spawn } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"

/** The API key of every benchmark platform. */
export const KEY = "benchmark-benchmark"

const SOURCES = resolve(import.meta.dirname, "../../apps/cli/src/bin.ts")

/** The program as it is published, in one bundle. `pnpm build` writes it. */
export const BUILT = resolve(import.meta.dirname, "../../apps/cli/dist/bin.js")

/** A running platform. */
export interface Platform {
  readonly url: string
  readonly pid: number
  /** Stops the platform and keeps its folder. */
  readonly stop: () => Promise<void>
  /** Stops the platform and removes its folder. */
  readonly end: () => Promise<void>
}

/** Starts a platform with a configuration file and its data in `folder`. `program`: default, the sources of this checkout. */
export const startPlatform = async (
  config: string,
  folder: string,
  env: { readonly [name: string]: string | undefined } = {},
  program = SOURCES
): Promise<Platform> => {
  const child = spawn(process.execPath, [program, "serve", "--config", config], {
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      PORT: "0",
      ...env,
      STINT_DATA_DIR: join(folder, "data"),
      STINT_API_KEY: KEY
    },
    stdio: ["ignore", "pipe", "ignore"]
  })
  const kill = () => child.kill()
  process.once("exit", kill)
  child.once("exit", () => process.off("exit", kill))
  const url = await new Promise<string>((found, failed) => {
    let text = ""
    child.once("exit", (code) => failed(new Error(`the platform exited with code ${code}:\n${text}`)))
    child.stdout.on("data", (data: Buffer) => {
      text += data.toString()
      const match = /Stint is up at +(\S+)/.exec(text)
      if (match?.[1] !== undefined) found(match[1])
    })
  })
  const exited = new Promise((ended) => child.once("exit", ended))
  const stop = async () => {
    child.kill("SIGTERM")
    await exited
  }
  return {
    url,
    pid: child.pid ?? 0,
    stop,
    end: async () => {
      await stop()
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
    }
  }
}

/** A package of this checkout, as the source of an import in a handler. */
export const source = (name: string): string =>
  JSON.stringify(resolve(import.meta.dirname, `../../packages/${name}/src/index.ts`))

/** Calls an HTTP endpoint. Throws unless the response is successful JSON. */
export const json = async (url: string, init: RequestInit = {}): Promise<unknown> => {
  const response = await fetch(url, init)
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return await response.json()
}

/** Calls the platform: POST with a body, otherwise GET. Throws unless the response is successful. */
export const call = (platform: Platform, path: string, body?: unknown): Promise<unknown> =>
  json(`${platform.url}${path}`, {
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
  })

/** Writes the sources of handlers, and a configuration with an endpoint, and one worker, for each. Returns the configuration's file. */
export const writeHandlers = async (folder: string, handlers: Readonly<Record<string, string>>): Promise<string> => {
  const endpoints: Record<string, unknown> = {}
  for (const [name, text] of Object.entries(handlers)) {
    const handler = join(folder, `${name}.ts`)
    await writeFile(handler, text)
    endpoints[name] = { handler, workers: { min: 1, max: 1 } }
  }
  const config = join(folder, "stint.config.ts")
  await writeFile(config, `export default ${JSON.stringify({ endpoints })}\n`)
  return config
}

/** Starts a platform with an endpoint, and one worker, for each handler source. `folder` is removed with the platform. */
export const startHandlers = async (
  handlers: Readonly<Record<string, string>>
): Promise<Platform & { readonly folder: string }> => {
  const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
  const config = await writeHandlers(folder, handlers)
  return { ...await startPlatform(config, folder, { PLATFORM_LOG_LEVEL: "WARN", STINT_BATCH_REQUESTS: "10000" }), folder }
}

/**
 * A registry on this machine that serves the packed packages, and everything else from npm's configured registry.
 */
import { execFile, execFileSync, spawn } from "node:child_process"
import type { ChildProcess } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import process from "node:process"
import { setTimeout as sleep } from "node:timers/promises"

/** The folder whose package.json lists the tools, which npm installs on first use. */
const TOOLS = import.meta.dirname

/** An npm setting; the text `null` when it is not set. */
const npmSetting = (name: string): string =>
  execFileSync("npm", ["config", "get", name], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim()

/** The certificate authorities that npm trusts, for this registry's own requests to npm's configured registry. */
const authorities = (): Readonly<Record<string, string>> => {
  const file = npmSetting("cafile")
  return file === "null" || process.env["NODE_EXTRA_CA_CERTS"] !== undefined ? {} : { NODE_EXTRA_CA_CERTS: file }
}

/** The address of npm's configured registry; undefined when it does not respond. */
export const upstream = (): string | undefined => {
  try {
    const url = npmSetting("registry")
    execFileSync("npm", ["ping"], { stdio: "ignore", timeout: 20_000 })
    return url
  } catch {
    return undefined
  }
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().once("error", reject).listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })

/** The output of a command that has ended. */
export interface Ended {
  readonly code: number
  readonly output: string
}

export class LocalRegistry implements AsyncDisposable {
  /** For projects, the registry's storage and the caches of npm and pnpm. Removed at the end. */
  readonly folder = mkdtempSync(join(tmpdir(), "stint-published-"))
  #server: ChildProcess | undefined

  /** Starts the registry. Throws when it does not respond within 60 s. */
  static async start(uplink: string): Promise<LocalRegistry> {
    execFileSync("npm", ["ci", "--no-audit", "--no-fund", "--silent"], { cwd: TOOLS, stdio: ["ignore", "ignore", "inherit"] })
    const registry = new LocalRegistry()
    const port = await freePort()
    const rules = { access: "$all", publish: "$all", unpublish: "$all", proxy: "npm" }
    const config = join(registry.folder, "verdaccio.yaml")
    // JSON is YAML.
    writeFileSync(
      config,
      JSON.stringify({
        storage: join(registry.folder, "storage"),
        uplinks: { npm: { url: uplink, timeout: "60s" } },
        packages: { "@stint/*": { ...rules, proxy: "" }, "create-stint": { ...rules, proxy: "" }, "**": rules },
        max_body_size: "200mb",
        log: { type: "stdout", format: "json", level: "error" }
      })
    )
    writeFileSync(
      join(registry.folder, "npmrc"),
      [
        `registry=http://127.0.0.1:${port}/`,
        `//127.0.0.1:${port}/:_authToken=anyone`,
        `cache=${join(registry.folder, "npm-cache")}`,
        `store-dir=${join(registry.folder, "pnpm-store")}`,
        "audit=false",
        "fund=false",
        "update-notifier=false"
      ].join("\n")
    )
    registry.#server = spawn(process.execPath, [
      join(TOOLS, "node_modules/verdaccio/bin/verdaccio"),
      "--config",
      config,
      "--listen",
      `127.0.0.1:${port}`
    ], {
      cwd: registry.folder,
      env: { ...process.env, ...authorities() },
      stdio: "ignore"
    })
    for (let attempt = 0;; attempt += 1) {
      const answered = await fetch(`http://127.0.0.1:${port}/-/ping`).then(({ ok }) => ok, () => false)
      if (answered) return registry
      if (attempt === 300) throw new Error("The local registry did not answer within 60 s.")
      await sleep(200)
    }
  }

  /** Runs a command that uses this registry, with the folder of `node` first in PATH. */
  run(cwd: string, [program = "", ...args]: ReadonlyArray<string>, node: string = process.execPath): Promise<Ended> {
    return new Promise((resolve) => {
      const child = execFile(
        program,
        args,
        { cwd, env: this.environment(node), maxBuffer: 1 << 26 },
        (_error, stdout, stderr) => resolve({ code: child.exitCode ?? 1, output: stdout + stderr })
      )
    })
  }

  /** The environment of a stranger's shell, without the variables that this repository's scripts set. */
  environment(node: string): NodeJS.ProcessEnv {
    return {
      PATH: [dirname(node), process.env["PATH"]].join(delimiter),
      HOME: this.folder,
      NPM_CONFIG_USERCONFIG: join(this.folder, "npmrc"),
      NO_COLOR: "1",
      CI: "true"
    }
  }

  /** Like {@link run}. Throws when the command fails, with its output. */
  async succeed(cwd: string, command: ReadonlyArray<string>, node?: string): Promise<string> {
    const { code, output } = await this.run(cwd, command, node)
    if (code !== 0) throw new Error(`${command.join(" ")} in ${cwd} failed:\n${output}`)
    return output
  }

  /** Publishes a tarball or a folder. */
  async publish(what: string): Promise<void> {
    await this.succeed(this.folder, ["npm", "publish", "--provenance=false", "--tag=latest", what])
  }

  /** Publishes a package from the uplink again under another version. */
  async republish(name: string, from: string, to: string): Promise<void> {
    const folder = this.project(`republished-${name}`, {})
    await this.succeed(folder, ["npm", "pack", `${name}@${from}`])
    await this.succeed(folder, [
      "sh",
      "-c",
      `tar -xzf *.tgz && cd package && npm pkg set version=${to} && npm pkg delete scripts publishConfig`
    ])
    await this.publish(join(folder, "package"))
  }

  /** A new folder with these files. A string is written unchanged, everything else as JSON. */
  project(name: string, files: Readonly<Record<string, unknown>>): string {
    const folder = join(this.folder, "projects", name)
    mkdirSync(folder, { recursive: true })
    for (const [file, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true })
      writeFileSync(join(folder, file), typeof content === "string" ? content : JSON.stringify(content))
    }
    return folder
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const server = this.#server
    if (server !== undefined && server.exitCode === null) {
      const ended = new Promise((resolve) => server.once("exit", resolve))
      server.kill()
      await ended
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  }
}

/** A real image registry on the loopback interface, with one user: Debian's docker-registry. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/** Why no registry can run here; undefined when one can. */
export const missingRegistry = (): string | undefined =>
  spawnSync("docker-registry", ["--version"], { stdio: "ignore" }).status === 0 ? undefined : "docker-registry is not installed"

const USER = "stint"

export const PASSWORD = "right-password"

/** The bcrypt hash of {@link PASSWORD}. */
const HASH = "$2b$04$W2EEN6JobFSgF2YQ5/UQcemzEDWGOqG2DS6fDPxJ5Okyqz6LzNmH6"

const START_LIMIT = 60_000

/** A running registry. Dispose of it. */
export class TestRegistry {
  readonly #process: ChildProcess

  readonly address: string

  private constructor(address: string, child: ChildProcess) {
    this.address = address
    this.#process = child
  }

  /** Starts a registry on a free port, with its images in `folder`. */
  static async start(folder: string): Promise<TestRegistry> {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, "htpasswd"), `${USER}:${HASH}\n`)
    writeFileSync(
      join(folder, "registry.json"),
      JSON.stringify({
        version: 0.1,
        log: { level: "info" },
        storage: { filesystem: { rootdirectory: join(folder, "images") } },
        http: { addr: "127.0.0.1:0" },
        auth: { htpasswd: { realm: "test", path: join(folder, "htpasswd") } }
      })
    )
    const child = spawn("docker-registry", ["serve", join(folder, "registry.json")], { stdio: ["ignore", "pipe", "pipe"] })
    const address = await new Promise<string>((resolve, reject) => {
      let words = ""
      const timer = setTimeout(() => reject(new Error(`the registry does not listen: ${words}`)), START_LIMIT)
      const read = (data: Buffer) => {
        words += data.toString()
        const [, found] = /listening on (127\.0\.0\.1:\d+)/.exec(words) ?? []
        if (found === undefined) return
        clearTimeout(timer)
        resolve(found)
      }
      child.stdout.on("data", read)
      child.stderr.on("data", read)
      child.once("exit", (code) => reject(new Error(`the registry ended with ${code}: ${words}`)))
    })
    return new TestRegistry(address, child)
  }

  /** Writes a file in the form of Docker's `config.json`. */
  writeCredentials(file: string, password: string): void {
    writeFileSync(
      file,
      JSON.stringify({ auths: { [this.address]: { auth: Buffer.from(`${USER}:${password}`).toString("base64") } } })
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#process
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((done) => child.once("exit", done))
    child.kill("SIGKILL")
    await ended
  }
}

/** What builds from Git need, in temporary folders: an engine, a registry with a password, and a folder with repositories. */
import { missingEngine, TestEngine } from "@stint/pool-container/testing"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { missingRegistry, PASSWORD, TestRegistry } from "./TestRegistry.ts"

/** Why nothing can be built here; undefined when builds work. */
export const missingParts = (): string | undefined => missingEngine() ?? missingRegistry()

/** Dispose of it, or the engine's storage remains. */
export class BuildWorld implements AsyncDisposable {
  readonly engine = new TestEngine()
  readonly folder: string
  readonly repositories: string
  /** The file with the registry's password. */
  readonly credentials: string
  readonly registry: TestRegistry
  readonly #registriesConf = process.env["CONTAINERS_REGISTRIES_CONF"]

  private constructor(folder: string, registry: TestRegistry) {
    this.folder = folder
    this.repositories = join(folder, "git")
    this.credentials = join(folder, "auth.json")
    this.registry = registry
  }

  static async start(): Promise<BuildWorld> {
    const folder = mkdtempSync(join(tmpdir(), "stint-builds-"))
    const world = new BuildWorld(folder, await TestRegistry.start(join(folder, "registry")))
    mkdirSync(world.repositories)
    world.registry.writeCredentials(world.credentials, PASSWORD)
    // The registry has no TLS.
    const conf = join(folder, "registries.conf")
    writeFileSync(conf, `[[registry]]\nlocation = "${world.registry.address}"\ninsecure = true\n`)
    process.env["CONTAINERS_REGISTRIES_CONF"] = conf
    await world.engine.start()
    return world
  }

  /** The settings of a platform that builds here. */
  get environment() {
    return {
      STINT_ENGINE: this.engine.socket,
      STINT_ENGINE_AUTH: this.credentials,
      STINT_REGISTRY: `${this.registry.address}/team`,
      STINT_BUILD_FOLDERS: this.repositories,
      STINT_BUILD_OPTIONS: "--isolation=chroot --network=host"
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine[Symbol.asyncDispose]()
    await this.registry[Symbol.asyncDispose]()
    if (this.#registriesConf === undefined) delete process.env["CONTAINERS_REGISTRIES_CONF"]
    else process.env["CONTAINERS_REGISTRIES_CONF"] = this.#registriesConf
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/**
 * A real container engine for tests: Podman with runc, with its own socket and its own storage in a temporary folder.
 *
 * It cannot pull images, so tests build them from this machine: Node or Python with its shared libraries, and the files of the test.
 */
import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { chmodSync, cpSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import process from "node:process"
import { promisify } from "node:util"

const run = promisify(execFile)

const exists = (program: string): boolean => spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0

/** Why no engine can run here; undefined if one can. */
export const missingEngine = (): string | undefined => {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "containers need Linux and root"
  const programs = ["podman", "runc", "nsenter"].filter((program) => !exists(program))
  if (!existsSync("/usr/libexec/podman/catatonit")) programs.push("catatonit")
  return programs.length === 0 ? undefined : `these programs are not installed: ${programs.join(", ")}`
}

/** Where the image has Node. */
const NODE_IN_IMAGE = "/usr/local/bin/node"

/** Where the image has Python. */
const PYTHON_IN_IMAGE = "/usr/local/bin/python"

/** Prints the program of this machine's Python, the folder of its standard library, and its home. */
const DESCRIBE_PYTHON =
  "import os, sys, sysconfig; print(os.path.realpath(sys.executable), sysconfig.get_path('stdlib'), sys.base_prefix, sep='\\n')"

/** The paths of the shared libraries that programs load. */
const librariesOf = async (programs: ReadonlyArray<string>): Promise<Readonly<Record<string, string>>> => {
  const { stdout } = await run("ldd", programs)
  // `ldd` prints the name of each program with a colon.
  return Object.fromEntries(Array.from(stdout.matchAll(/\/\S+(?<!:)(?=\s)/g), ([library]) => [library, library]))
}

/** How long the engine may take to start. Milliseconds. */
const START_LIMIT = 60_000

/**
 * A running engine. Dispose of it, or its storage remains. `storage`: Podman's driver. The default, `vfs`, works on every file system and copies the
 * image for each container; `overlay` does not copy.
 */
export class TestEngine {
  readonly folder = join(tmpdir(), `stint-podman-${randomUUID().slice(0, 8)}`)
  readonly socket = join(this.folder, "podman.sock")
  /** The options of `podman` that select this engine. */
  readonly options: ReadonlyArray<string>
  #service: ChildProcess | undefined

  constructor(storage: "vfs" | "overlay" = "vfs") {
    this.options = [
      ...["--root", join(this.folder, "storage")],
      ...["--runroot", join(this.folder, "run")],
      ...["--tmpdir", join(this.folder, "tmp")],
      ...["--storage-driver", storage],
      ...["--cgroup-manager", "cgroupfs"],
      ...["--events-backend", "file"],
      ...["--runtime", "runc"]
    ]
  }

  /** Starts the service, and returns when it responds. */
  async start(): Promise<void> {
    mkdirSync(this.folder, { recursive: true })
    const service = spawn("podman", [...this.options, "system", "service", "--time=0", `unix://${this.socket}`], {
      stdio: ["ignore", "ignore", "pipe"],
      detached: true
    })
    this.#service = service
    let words = ""
    service.stderr?.on("data", (data: Buffer) => (words += data.toString()))
    const until = Date.now() + START_LIMIT
    while (!existsSync(this.socket)) {
      if (service.exitCode !== null || Date.now() > until) throw new Error(`podman's service does not listen: ${words}`)
      await new Promise((next) => setTimeout(next, 20))
    }
  }

  /** Kills the service, like a crash. Its containers continue. */
  async kill(): Promise<void> {
    const service = this.#service
    if (service === undefined || service.exitCode !== null || service.signalCode !== null) return
    const ended = new Promise((done) => service.once("exit", done))
    service.kill("SIGKILL")
    await ended
    rmSync(this.socket, { force: true })
  }

  /** Runs a podman command with the engine's storage, without its service. */
  async podman(...args: ReadonlyArray<string>): Promise<string> {
    return (await run("podman", [...this.options, ...args], { maxBuffer: 64 * 1024 * 1024 })).stdout
  }

  /** Makes an image of this machine's Node and files: from paths on this machine by path in the image. Its ENTRYPOINT is Node. */
  async makeNodeImage(name: string, files: Readonly<Record<string, string>>): Promise<void> {
    const libraries = await librariesOf([process.execPath])
    await this.#makeImage(name, { [NODE_IN_IMAGE]: process.execPath, ...libraries, ...files }, [
      `ENTRYPOINT ["${NODE_IN_IMAGE}"]`
    ])
  }

  /** Makes an image of this machine's Python and its standard library, which has the program `python`, and no shell and no pip. */
  async makePythonImage(name: string): Promise<void> {
    const { stdout } = await run("python3", ["-c", DESCRIBE_PYTHON])
    const [program = "", library = "", home = ""] = stdout.trim().split("\n")
    const modules = globSync("lib-dynload/*.so", { cwd: library }).map((file) => join(library, file))
    const files = { [PYTHON_IN_IMAGE]: program, [library]: library, ...await librariesOf([program, ...modules]) }
    await this.#makeImage(
      name,
      files,
      [`ENV PYTHONHOME=${home}`],
      /\/(?:test|tests|idlelib|ensurepip|__pycache__|(?:site|dist)-packages)$/
    )
  }

  /** @param files paths on this machine by path in the image. */
  async #makeImage(
    name: string,
    files: Readonly<Record<string, string>>,
    changes: ReadonlyArray<string>,
    without?: RegExp
  ): Promise<void> {
    const root = mkdtempSync(join(this.folder, "image-"))
    // Only its owner can enter a temporary folder. It becomes the image's root, which other users of the image must enter.
    chmodSync(root, 0o755)
    for (const [to, from] of Object.entries(files)) {
      mkdirSync(join(root, dirname(to)), { recursive: true })
      cpSync(from, join(root, to), {
        dereference: true,
        recursive: true,
        ...(without === undefined ? {} : { filter: (path: string) => !without.test(path) })
      })
    }
    mkdirSync(join(root, "tmp"), { recursive: true })
    const archive = `${root}.tar`
    await run("tar", ["--create", "--file", archive, "--directory", root, "."])
    await this.podman("import", "--quiet", ...changes.flatMap((change) => ["--change", change]), archive, name)
    rmSync(root, { recursive: true })
    rmSync(archive)
  }

  /** Removes the containers, ends the service, and removes the storage. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    await this.podman("rm", "--all", "--force", "--time", "0").catch(() => undefined)
    const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n").map((line) => line.split(" ")[1] ?? "")
    for (const mount of mounts.filter((path) => path.startsWith(`${this.folder}/`)).toReversed()) {
      spawnSync("umount", ["--lazy", mount])
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  }
}

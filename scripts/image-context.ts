/**
 * Writes the build context of the platform's image (apps/cli/image): the packed packages as users install them, and nothing else from the workspace.
 *
 * `node scripts/image-context.ts FOLDER [--cpu arm64]`, after `pnpm build`. `--cpu`: the image's CPU architecture, as npm names it. Default:
 * this machine's.
 *
 * The packages are installed here and not while the image is built, because they are not on npm yet. So the image's build runs no program and
 * needs no network.
 */
import { execFileSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import process from "node:process"
import { parseArgs } from "node:util"
import { packTo } from "./pack.ts"
import { root } from "./workspace.ts"

/** The platform, what handlers import, and the driver for a platform with PostgreSQL. */
const OWN = ["@stint/cli", "@stint/sdk"]
const DRIVER = "pg"

/** The folder of the Dockerfile. */
export const IMAGE = join(root, "apps/cli/image")

/** The version of the driver that the tests use. */
const driverVersion = (): string => {
  const [, version] = /^ {2}pg: (.+)$/m.exec(readFileSync(join(root, "pnpm-workspace.yaml"), "utf8")) ?? []
  if (version === undefined) throw new Error("pnpm-workspace.yaml has no version of pg in its catalog.")
  return version
}

/** Writes the context. `folder` must not exist, or be empty. */
export const writeContext = (folder: string, cpu: string = process.arch): void => {
  mkdirSync(join(folder, "data"), { recursive: true })
  const work = mkdtempSync(join(tmpdir(), "stint-image-"))
  try {
    const tarballs = packTo(work)
    const dependencies = Object.fromEntries(OWN.map((name) => [name, `file:${tarballs.get(name)}`]))
    writeFileSync(
      join(work, "package.json"),
      JSON.stringify({ private: true, dependencies: { ...dependencies, [DRIVER]: driverVersion() } })
    )
    execFileSync(
      "npm",
      // Without scripts: the dependencies' scripts only replace a launcher, and would do so for this machine's architecture.
      [
        "install",
        "--omit=dev",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        "--os=linux",
        `--cpu=${cpu}`,
        "--libc=glibc"
      ],
      { cwd: work, stdio: ["ignore", "ignore", "inherit"] }
    )
    cpSync(join(work, "node_modules"), join(folder, "node_modules"), { recursive: true, verbatimSymlinks: true })
    cpSync(join(IMAGE, "Dockerfile"), join(folder, "Dockerfile"))
  } finally {
    rmSync(work, { recursive: true })
  }
}

if (import.meta.main) {
  const { positionals: [folder], values: { cpu } } = parseArgs({
    allowPositionals: true,
    options: { cpu: { type: "string", default: process.arch } }
  })
  if (folder === undefined) throw new Error("Name the folder to write: node scripts/image-context.ts FOLDER")
  writeContext(resolve(folder), cpu)
}

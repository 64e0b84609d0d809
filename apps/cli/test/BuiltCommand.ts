/**
 * The program `stint`, bundled as for publication. It starts in less than half the time that its sources take, and the tests start it a thousand
 * times.
 *
 * The first test that needs it builds it. Later ones use it until a source changes:
 *
 * ```
 *   apps/cli/.built-<hash of the sources' times and sizes>/platform/bin.js
 * ```
 *
 * This folder is as deep as src/platform, so that the program finds the clone and the console as from its sources.
 */
import { build } from "esbuild"
import { createHash } from "node:crypto"
import { existsSync, globSync, renameSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { externalPackages, packageOptions } from "../../../scripts/bundle-options.ts"
import { root } from "../../../scripts/workspace.ts"

const folder = join(root, "apps/cli")

/** The program's sources. */
export const SOURCE = join(folder, "src/bin.ts")

/** Another run of the tests may still use an older program for this long. Milliseconds. */
const UNUSED_MILLIS = 60 * 60_000

const PREFIX = ".built-"

const hashOfSources = (): string => {
  const hash = createHash("sha256")
  for (const file of globSync(["packages/*/src/**/*.ts", "apps/cli/src/**/*.ts", "pnpm-lock.yaml"], { cwd: root }).toSorted()) {
    const { mtimeMs, size } = statSync(join(root, file))
    hash.update(`${file} ${mtimeMs} ${size}\n`)
  }
  return hash.digest("hex").slice(0, 16)
}

const removeUnused = (): void => {
  for (const name of globSync(`${PREFIX}*`, { cwd: folder })) {
    const path = join(folder, name)
    if ((statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < Date.now() - UNUSED_MILLIS) {
      rmSync(path, { recursive: true, force: true })
    }
  }
}

const make = async (): Promise<string> => {
  const built = join(folder, `${PREFIX}${hashOfSources()}`)
  const program = join(built, "platform/bin.js")
  if (existsSync(program)) return program
  removeUnused()
  const temporary = join(folder, `${PREFIX}${process.pid}`)
  await build({
    ...packageOptions(folder),
    sourcemap: false,
    entryPoints: [SOURCE],
    outdir: join(temporary, "platform"),
    external: externalPackages(folder),
    logLevel: "error"
  })
  try {
    renameSync(temporary, built)
  } catch (error) {
    // Another test file was faster.
    if (!existsSync(program)) throw error
    rmSync(temporary, { recursive: true, force: true })
  }
  return program
}

let built: Promise<string> | undefined

/** The program to start with these variables. A program that changes modules while they are loaded (`--import`) needs the sources. */
export const programFor = (env: Readonly<Record<string, string>>): Promise<string> =>
  env["NODE_OPTIONS"]?.includes("--import") === true ? Promise.resolve(SOURCE) : built ??= make()

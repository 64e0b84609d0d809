/**
 * The two settings in which the pages run.
 *
 * - `clone`: a clone of this working tree, including changes that are not committed, installed from pnpm's store.
 * - `packages`: a project in a separate folder, which installs the packed packages with npm. Needs `pnpm build`. The project also has a
 *   copy of the examples, whose endpoints the pages call.
 */
import { execFileSync } from "node:child_process"
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import type { SettingName } from "./doc-plan.ts"
import type { Setting } from "./doc-runner.ts"
import { packTo } from "./pack.ts"
import { packages, publishable, readManifest, root } from "./workspace.ts"

/** A folder with a setting, which the pages use one after the other. */
export interface PreparedSetting extends Disposable {
  /** Removes what the previous page left behind, and returns the setting for the next page. */
  readonly next: () => Setting
}

const run = (cwd: string, [program = "", ...args]: ReadonlyArray<string>, env?: NodeJS.ProcessEnv): string =>
  execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } })
    .trim()

const path = (...folders: ReadonlyArray<string>) => [...folders, dirname(process.execPath), process.env["PATH"]].join(delimiter)

/** The age from which a version on the registry is installed. Milliseconds. */
const RELEASE_AGE_MILLIS = 3 * 24 * 3_600_000

/**
 * The caches of this machine, so that a page's own home folder does not make npm and pnpm download everything again. npm ignores the versions
 * of the last days: a registry can list a new version before it has the packages that it depends on. pnpm ignores them by default.
 */
const caches = (): NodeJS.ProcessEnv => ({
  npm_config_before: new Date(Date.now() - RELEASE_AGE_MILLIS).toISOString(),
  npm_config_cache: run(root, ["npm", "config", "get", "cache"]),
  npm_config_prefer_offline: "true",
  npm_config_registry: run(root, ["npm", "config", "get", "registry"]),
  npm_config_update_notifier: "false",
  pnpm_config_store_dir: dirname(run(root, ["npx", "-y", "pnpm@12", "store", "path"]))
})

/** The pages of a setting start the same endpoints, and each has its own home folder. So they share the bundles of the handlers. */
const bundlesIn = (folder: string): NodeJS.ProcessEnv => ({ STINT_CACHE_DIR: join(folder, "cache") })

/** A repository with one commit: the files of this working tree. */
const repositoryOf = (folder: string): string => {
  for (const file of run(root, ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).split("\0")) {
    if (file !== "" && existsSync(join(root, file))) cpSync(join(root, file), join(folder, file), { verbatimSymlinks: true })
  }
  run(folder, ["git", "init", "--quiet", "--initial-branch=main"])
  run(folder, ["git", "add", "--all"])
  run(folder, ["git", "-c", "user.name=Stint", "-c", "user.email=stint@localhost", "commit", "--quiet", "--message=Snapshot"])
  return folder
}

/** Makes every package, and every dependency of any package, resolve from a folder. */
const linkModules = (folder: string, clone: string) => {
  for (const { manifest, path } of packages) {
    const at = path.replace(root, clone)
    const dependencies = Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })
    for (const [name, target] of [[manifest.name, at], ...dependencies.map((one) => [one, join(at, "node_modules", one)])]) {
      const link = join(folder, "node_modules", name ?? "")
      if (target === undefined || existsSync(link) || !existsSync(target)) continue
      mkdirSync(dirname(link), { recursive: true })
      symlinkSync(realpathSync(target), link)
    }
  }
}

/** A program that a page calls by its name. */
const writeProgram = (file: string, command: string) => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `#!/bin/sh\nexec ${command} "$@"\n`)
  chmodSync(file, 0o755)
}

/** Removes what a page left behind in a folder. */
const removeExcept = (folder: string, kept: ReadonlyArray<string>) => {
  for (const file of readdirSync(folder)) {
    if (!kept.includes(file)) rmSync(join(folder, file), { recursive: true, force: true })
  }
}

/** The packages are not on npm's registry, so a project that `stint init` wrote installs them from the tarballs. */
const useTarballs = `const fs = require("node:fs")
const manifest = JSON.parse(fs.readFileSync("package.json", "utf8"))
const tarballs = JSON.parse(process.env.TARBALLS)
for (const part of [manifest.dependencies ?? {}, manifest.devDependencies ?? {}]) {
  for (const name of Object.keys(part)) part[name] = tarballs[name] ?? part[name]
}
manifest.overrides = tarballs
fs.writeFileSync("package.json", JSON.stringify(manifest, null, 2))
`

const prepareClone = (folder: string): () => Setting => {
  const env = { ...caches(), ...bundlesIn(folder) }
  const repository = repositoryOf(join(folder, "repository"))
  const clone = join(folder, "work/stint")
  mkdirSync(join(folder, "modules"))
  mkdirSync(join(folder, "work"))
  run(folder, ["git", "clone", "--quiet", repository, clone])
  run(clone, ["npx", "-y", "pnpm@12", "install", "--frozen-lockfile", "--prefer-offline"], env)
  linkModules(join(folder, "modules"), clone)
  writeProgram(join(folder, "bin/stint"), `node '${join(clone, "apps/cli/src/bin.ts")}'`)
  return () => {
    removeExcept(join(folder, "work"), ["stint"])
    // turbo's cache contains the console, so that only the first page builds it.
    run(clone, ["git", "clean", "-ffdxq", "--exclude=node_modules", "--exclude=.turbo"])
    run(clone, ["git", "checkout", "--quiet", "."])
    return {
      name: "clone",
      folder: clone,
      modules: join(folder, "modules"),
      examples: join(clone, "examples"),
      env: { ...env, PATH: path(join(folder, "bin"), join(clone, "node_modules/.bin")), REPOSITORY: repository },
      commands: []
    }
  }
}

const preparePackages = (folder: string): () => Setting => {
  const env = { ...caches(), ...bundlesIn(folder) }
  const tarballs = packTo(join(folder, "tarballs"))
  const project = join(folder, "work/project")
  const files = (names: ReadonlyArray<string>) =>
    Object.fromEntries(names.map((name) => [name, `file:${tarballs.get(name) ?? ""}`]))
  // The dependencies of the examples and of the pages' modules, at this repository's versions.
  const others = Object.fromEntries(
    ["effect", "@effect/vitest", "vitest", "sharp", "openai", "runpod-sdk", "typescript"].flatMap((name) => {
      const [manifest] = globSync([
        `node_modules/${name}/package.json`,
        `{packages,apps,examples}/*/node_modules/${name}/package.json`
      ], {
        cwd: root
      })
      return manifest === undefined ? [] : [[name, readManifest(join(root, manifest)).version]]
    })
  )
  mkdirSync(project, { recursive: true })
  writeFileSync(join(folder, "use-tarballs.cjs"), useTarballs)
  writeFileSync(
    join(project, "package.json"),
    JSON.stringify({ type: "module", private: true, dependencies: { ...files(publishable.map(({ name }) => name)), ...others } })
  )
  run(project, ["npm", "install", "--no-audit", "--no-fund"], env)
  const kept = readdirSync(project)
  return () => {
    removeExcept(join(folder, "work"), ["project"])
    removeExcept(project, kept)
    cpSync(join(root, "examples"), join(project, "examples"), {
      recursive: true,
      // A bundle is valid while the times of its sources are unchanged.
      preserveTimestamps: true,
      filter: (source) => !/(?:node_modules|package\.json|\.stint)$/.test(source)
    })
    return {
      name: "packages",
      folder: project,
      modules: project,
      examples: join(project, "examples"),
      env: {
        ...env,
        PATH: path(join(project, "node_modules/.bin")),
        TARBALLS: JSON.stringify(files(publishable.map(({ name }) => name)))
      },
      commands: [
        [/npx -y pnpm@12 (?:--silent )?stint\b/g, "npx stint"],
        [/^npm install$/gm, `node ${join(folder, "use-tarballs.cjs")} && npm install`]
      ]
    }
  }
}

/** Prepares a setting in a temporary folder. */
export const prepare = (name: SettingName): PreparedSetting => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `stint-${name}-`)))
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  try {
    return { next: name === "clone" ? prepareClone(folder) : preparePackages(folder), [Symbol.dispose]: remove }
  } catch (error) {
    remove()
    throw error
  }
}

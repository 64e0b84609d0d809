/**
 * Checks every package.json of the workspace: what publishing needs, and that the arrows point to `contract`.
 *
 * ```
 *  cli, examples, benchmarks     compose: may depend on everything
 *        |
 *  server   queue-sqlite   pool-process   sdk   ...     implementations and surfaces
 *        \        |             |          /
 *         queue           pool         worker           seams: never depend on an implementation
 *               \          |          /
 *                       contract                        depends on no package of ours
 * ```
 *
 * `--fix` writes what can be derived (the version, `files`, `publishConfig`, ...). Arrows are for a person to turn.
 */
import { globSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { type Manifest, packages, readManifest, root } from "./workspace.ts"

const fix = process.argv.includes("--fix")
const problems: Array<string> = []

/** The seams; `<seam>-<x>` is an implementation of it, or a plugin. */
const seams = ["queue", "pool", "worker"]

/** Who may depend on which implementation, besides the composers. The SDK's facade comes with the worker's plugins. */
const alsoComposes: Record<string, ReadonlyArray<string>> = { worker: ["sdk"] }

const short = (name: string) => name.replace("@stint/", "")
const seamOf = (name: string) => seams.find((seam) => short(name).startsWith(`${seam}-`))

const dependenciesOf = (manifest: Manifest) => ({
  ...manifest.dependencies,
  ...manifest.devDependencies,
  ...manifest.peerDependencies,
  ...manifest.optionalDependencies
})

const names = new Set(packages.map((one) => one.name))

const isComposer = (name: string, folder: string) => name === "@stint/cli" || !folder.startsWith("packages/")
const programs = new Set(packages.filter((one) => isComposer(one.name, one.folder)).map((one) => one.name))

for (const { folder, manifest, name } of packages) {
  const composes = isComposer(name, folder)
  for (const dependency of Object.keys(dependenciesOf(manifest)).filter((one) => names.has(one))) {
    const arrow = `${folder}/package.json: ${name} depends on ${dependency}`
    const seam = seamOf(dependency)
    if (name === "@stint/contract") {
      problems.push(`${arrow}. The contract depends on no other package of ours: move what it needs into the contract.`)
    } else if (programs.has(dependency) && !composes) {
      problems.push(`${arrow}, which is a program. Move what it needs into a package of its own.`)
    } else if (seam !== undefined && !composes && !(alsoComposes[seam] ?? []).includes(short(name))) {
      problems.push(
        `${arrow}, an implementation. Depend on @stint/${seam} and let cli or an example provide the layer; ` +
          `for tests, use the layers and suites of @stint/${seam}, or put the test into packages/cli/test.`
      )
    }
  }
}

const { version } = readManifest(join(root, "packages/contract/package.json"))

/** `./src/index.ts` -> `./dist/index.js`, for all values of a record. */
const built = (record: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(record).map(([key, source]) => [key, source.replace("./src/", "./dist/").replace(/\.ts$/, ".js")])
  )

const same = (left: unknown, right: unknown) => JSON.stringify(left) === JSON.stringify(right)

for (const { folder, path, manifest } of packages) {
  const wanted: Manifest = structuredClone(manifest)
  wanted.type = "module"
  for (const kind of ["dependencies", "devDependencies", "optionalDependencies"] as const) {
    const declared = wanted[kind]
    for (const dependency of Object.keys(declared ?? {})) {
      if (declared !== undefined) declared[dependency] = names.has(dependency) ? "workspace:*" : "catalog:"
    }
  }
  if (!folder.startsWith("packages/")) {
    wanted.private = true
  } else if (manifest.private === true) {
    problems.push(
      `${folder}/package.json: it is private. Packages get published; what is not belongs into examples/ or benchmarks/.`
    )
  } else {
    const publishConfig: Manifest["publishConfig"] = {
      access: "public",
      // Not at the top: there pnpm would hold it against the Node that runs pnpm itself, before it has installed ours.
      engines: { node: ">=22.19" }
    }
    if (manifest.exports !== undefined) publishConfig.exports = built(manifest.exports)
    if (manifest.bin !== undefined) publishConfig.bin = built(manifest.bin)
    wanted.version = version ?? "0.0.0"
    wanted.license = "MIT"
    wanted.sideEffects = manifest.sideEffects ?? false
    wanted.files = ["dist", "src"]
    wanted.scripts = { build: "node ../../scripts/build.ts", ...manifest.scripts }
    wanted.publishConfig = publishConfig
    if (manifest.name !== `@stint/${basename(folder)}`) {
      problems.push(`${folder}/package.json: the name is ${manifest.name}. Call it @stint/${basename(folder)}, as its folder.`)
    }
    if (manifest.description === undefined) {
      problems.push(`${folder}/package.json: there is no description. Say in one line what the package is for.`)
    }
    if (manifest.exports === undefined && manifest.bin === undefined) {
      problems.push(`${folder}/package.json: there are no exports. Add { ".": "./src/index.ts", "./*": "./src/*.ts" }.`)
    }
  }
  const wrong = Object.entries(wanted).filter(([key, value]) =>
    !same(value, Object.entries(manifest).find(([one]) => one === key)?.[1])
  )
  if (wrong.length === 0) continue
  if (fix) {
    writeFileSync(join(path, "package.json"), `${JSON.stringify(wanted, null, 2)}\n`)
  } else {
    for (const [key, value] of wrong) {
      problems.push(`${folder}/package.json: ${key} has to be ${JSON.stringify(value)}. \`pnpm format\` writes it.`)
    }
  }
}

// A name that says nothing gathers everything. The SDK's facade has the names of the specification, `utils` among them.
for (const file of globSync("packages/*/src/**/{utils,util,common,helpers,helper,misc}.ts", { cwd: root })) {
  if (file.startsWith("packages/sdk/")) continue
  problems.push(`${file}: a name that says nothing. Name the file after the one thing that it does.`)
}

for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

/**
 * Checks every package.json of the workspace: what publishing needs, `exports` (public-paths.ts), and the dependencies (arrows.ts).
 *
 * `--fix` writes what can be derived: the version, `files`, `exports`, `publishConfig`, ... A package's imports of its own paths that are not
 * public become relative. Dependencies stay as they are: which of them to change is a decision.
 */
import { globSync, readFileSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { arrowProblems } from "./arrows.ts"
import { exportsProblems, type OwnImport, publicPaths } from "./public-paths.ts"
import { isPublished, type Manifest, packages, readManifest, root } from "./workspace.ts"

const fix = process.argv.includes("--fix")
const problems: Array<string> = [...arrowProblems(packages)]
const names = new Set(packages.map((one) => one.name))
const paths = publicPaths(root, packages)

const { version } = readManifest(join(root, "packages/contract/package.json"))

/** `./src/index.ts` -> `./dist/index.js`, for all values of a record. */
const built = <Value extends string | null>(record: Record<string, Value>): Record<string, string | Value> =>
  Object.fromEntries(
    Object.entries(record).map(([key, source]) => [
      key,
      source === null ? source : source.replace("./src/", "./dist/").replace(/\.tsx?$/, ".js")
    ])
  )

const same = (left: unknown, right: unknown) => JSON.stringify(left) === JSON.stringify(right)

/** Replaces the package's name by the module's file in an import. */
const useFile = ({ file, replacement, specifier }: OwnImport) => {
  const source = readFileSync(join(root, file), "utf8")
  writeFileSync(join(root, file), source.replaceAll(`"${specifier}"`, `"${replacement}"`))
}

for (const { folder, path, manifest } of packages) {
  const wanted: Manifest = structuredClone(manifest)
  wanted.type = "module"
  for (const kind of ["dependencies", "devDependencies", "optionalDependencies"] as const) {
    const declared = wanted[kind]
    for (const dependency of Object.keys(declared ?? {})) {
      if (declared !== undefined) declared[dependency] = names.has(dependency) ? "workspace:*" : "catalog:"
    }
  }
  const found = paths.get(manifest.name)
  if (found !== undefined) wanted.exports = found.exports
  if (!isPublished(folder)) {
    wanted.private = true
  } else if (manifest.private === true) {
    if (folder.startsWith("packages/")) {
      problems.push(
        `${folder}/package.json: it is private. Packages get published; what is not belongs into apps/, examples/ or benchmarks/.`
      )
    }
  } else {
    const publishConfig: Manifest["publishConfig"] = {
      access: "public",
      // Not at the top: there pnpm would hold it against the Node that runs pnpm itself, before it has installed ours.
      engines: { node: ">=22.19" }
    }
    if (wanted.exports !== undefined) publishConfig.exports = built(wanted.exports)
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
    if (found === undefined && manifest.bin === undefined) {
      problems.push(`${folder}: there is no src/. Add src/index.ts.`)
    }
  }
  problems.push(...found?.problems ?? [])
  for (const one of found?.ownImports ?? []) {
    if (fix) useFile(one)
    else {
      problems.push(
        `${one.file} imports ${one.specifier}, which is not public. Import ${one.replacement}; \`pnpm format\` does it.`
      )
    }
  }
  const wrong = Object.entries(wanted).filter(([key, value]) =>
    !same(value, Object.entries(manifest).find(([one]) => one === key)?.[1])
  )
  if (wrong.length === 0) continue
  if (fix) {
    writeFileSync(join(path, "package.json"), `${JSON.stringify(wanted, null, 2)}\n`)
    continue
  }
  const wrongPaths = found === undefined ? [] : exportsProblems({ folder, manifest }, found)
  problems.push(...wrongPaths)
  for (const [key, value] of wrong) {
    // Named path by path above.
    if (wrongPaths.length > 0 && (key === "exports" || key === "publishConfig")) continue
    problems.push(`${folder}/package.json: ${key} has to be ${JSON.stringify(value)}. \`pnpm format\` writes it.`)
  }
}

// A name that says nothing gathers everything. The SDK's facade has the names of docs/spec/handler.md#facade, `utils` among them.
for (const file of globSync("{packages,apps}/*/src/**/{utils,util,common,helpers,helper,misc}.ts", { cwd: root })) {
  if (file.startsWith("packages/sdk/")) continue
  problems.push(`${file}: a name that says nothing. Name the file after the one thing that it does.`)
}

for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

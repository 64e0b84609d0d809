/**
 * Checks every package.json of the workspace: the fields for publishing, `exports` (public-paths.ts) and the dependencies (arrows.ts).
 *
 * `--fix` writes every field that can be derived: the version, `files`, `exports`, `publishConfig` and so on. It also makes imports relative
 * when a package imports its own non-public paths. It never changes dependencies, because a person must decide which dependency to change.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs"
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

/** The packages' `engines`, which their tests run on. apps/cli/src/NodeVersion.ts has the reasons. */
const NODE = "^22.19.0 || >=24"

/** Packages that must have the user's version, because two copies do not recognize each other's values or types. */
const PEERS = ["effect", "vitest", "@effect/vitest", "fast-check"]

/** The addresses that the registry shows, from the root's package.json. */
const { bugs, homepage, repository } = readManifest(join(root, "package.json"))

const same = (left: unknown, right: unknown) => JSON.stringify(left) === JSON.stringify(right)

/** Replaces a package's import of its own path with the module's file. */
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
      if (declared === undefined || declared[dependency] === "catalog:peers") continue
      declared[dependency] = names.has(dependency) ? "workspace:*" : "catalog:"
    }
  }
  for (const peer of Object.keys(wanted.peerDependencies ?? {})) {
    if (wanted.peerDependencies !== undefined) wanted.peerDependencies[peer] = "catalog:peers"
  }
  const found = paths.get(manifest.name)
  if (found !== undefined) wanted.exports = found.exports
  if (!isPublished(folder)) {
    wanted.private = true
  } else if (manifest.private === true) {
    if (folder.startsWith("packages/")) {
      problems.push(
        `${folder}/package.json: "private" is true, but packages are published. Remove it, or move the folder to apps/, examples/ or benchmarks/.`
      )
    }
  } else {
    const publishConfig: Manifest["publishConfig"] = {
      access: "public",
      // Not at the top level, because pnpm would check it against the Node version that runs pnpm, before it has installed the pinned
      // version.
      engines: { node: NODE }
    }
    // A bundle (bundle.ts) has no modules other than its entry points.
    const isBundle = manifest.scripts?.["build"]?.includes("bundle.ts") === true
    const entries = new Set(["./src/index.ts", ...Object.values(manifest.bin ?? {})])
    const published = Object.entries(wanted.exports ?? {}).filter(([, file]) => !isBundle || (file !== null && entries.has(file)))
    if (published.length > 0) publishConfig.exports = built(Object.fromEntries(published))
    if (manifest.bin !== undefined) publishConfig.bin = built(manifest.bin)
    wanted.version = version ?? "0.0.0"
    wanted.license = "MIT"
    wanted.sideEffects = manifest.sideEffects ?? false
    if (repository !== undefined) wanted.repository = { ...repository, directory: folder }
    if (homepage !== undefined) wanted.homepage = homepage
    if (bugs !== undefined) wanted.bugs = bugs
    // The source maps of a bundle contain its sources; the others name files in src/.
    wanted.files = isBundle ? ["dist"] : ["dist", "src"]
    wanted.scripts = { build: "node ../../scripts/build.ts", ...manifest.scripts }
    wanted.publishConfig = publishConfig
    // `npm create stint` looks for a package without a scope.
    const name = folder === "apps/create-stint" ? "create-stint" : `@stint/${basename(folder)}`
    if (manifest.name !== name) {
      problems.push(`${folder}/package.json: the name is ${manifest.name}. Rename it to ${name}, after its folder.`)
    }
    if ((manifest.keywords ?? []).length === 0) {
      problems.push(`${folder}/package.json: "keywords" is missing. Add the words that users search for.`)
    }
    if (!existsSync(join(path, "README.md"))) {
      problems.push(`${folder}: README.md is missing. The registry shows it: say what the package is for, with an example.`)
    }
    for (const peer of PEERS) {
      if (peer in (manifest.dependencies ?? {})) {
        problems.push(
          `${folder}/package.json: ${peer} is in dependencies. Move it to peerDependencies ("catalog:peers") and devDependencies, so that ` +
            "users have one copy of it."
        )
      } else if (peer in (manifest.peerDependencies ?? {}) && !(peer in (manifest.devDependencies ?? {}))) {
        problems.push(`${folder}/package.json: ${peer} is only in peerDependencies. Add it to devDependencies, for the tests.`)
      }
    }
    if (manifest.description === undefined) {
      problems.push(`${folder}/package.json: "description" is missing. Add one line that says what the package is for.`)
    }
    if (found === undefined && manifest.bin === undefined) {
      problems.push(`${folder}: src/ is missing. Add src/index.ts.`)
    }
  }
  problems.push(...found?.problems ?? [])
  for (const one of found?.ownImports ?? []) {
    if (fix) useFile(one)
    else {
      problems.push(
        `${one.file} imports ${one.specifier}, which is not public. Import ${one.replacement}; \`pnpm format\` rewrites it.`
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
    // exportsProblems() has already reported each path.
    if (wrongPaths.length > 0 && (key === "exports" || key === "publishConfig")) continue
    problems.push(`${folder}/package.json: ${key} must be ${JSON.stringify(value)}. \`pnpm format\` writes it.`)
  }
}

// Files with generic names collect unrelated code. The SDK's facade is exempt: it uses the names of docs/spec/handler.md#facade, which
// include `utils`.
for (const file of globSync("{packages,apps}/*/src/**/{utils,util,common,helpers,helper,misc}.ts", { cwd: root })) {
  if (file.startsWith("packages/sdk/")) continue
  problems.push(`${file}: the name is generic. Name the file after the one thing that it does.`)
}

for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

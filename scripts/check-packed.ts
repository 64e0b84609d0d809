/**
 * Checks the tarballs that would be published. Needs `pnpm build`.
 *
 * Packs every package and lints the tarballs with publint. Unpacks them into an empty folder outside the workspace, where each package sees
 * only its declared dependencies. In that folder, it type-checks a program that imports every public module, and runs a program that
 * imports every package.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, globSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { publint } from "publint"
import { formatMessage } from "publint/utils"
import { packTo } from "./pack.ts"
import { publishable, readManifest, root } from "./workspace.ts"

const problems: Array<string> = []
const folder = realpathSync(mkdtempSync(join(tmpdir(), "stint-packed-")))

/** The path at which Node finds a dependency of an unpacked package. */
const beside = (name: string, dependency: string) => join(folder, "installed", name.replace("/", "+"), "node_modules", dependency)

/** The folder of an unpacked package, next to only its own dependencies, as in pnpm's layout. */
const installed = (name: string) => beside(name, name)

const link = (target: string, path: string) => {
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(target, path)
}

/** The import specifiers of a packed package, from its exports. Patterns are expanded. */
const specifiersOf = (name: string): ReadonlyArray<string> =>
  Object.entries(readManifest(join(installed(name), "package.json")).exports ?? {}).flatMap(([key, target]) => {
    if (target === null) return []
    if (!key.includes("*")) return [join(name, key)]
    const [before = "", after = ""] = target.split("*")
    return globSync(target, { cwd: installed(name) }).toSorted().map((file) =>
      join(name, key.replace("*", `./${file}`.slice(before.length, -after.length)))
    )
  })

const run = (what: string, hint: string, args: ReadonlyArray<string>) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" })
  if (status !== 0) problems.push(`${what} of the packed packages failed:\n${stdout}${stderr}${hint}`)
}

try {
  const tarballs = packTo(join(folder, "tarballs"))

  for (const { name, path } of publishable) {
    const tarball = tarballs.get(name) ?? ""
    mkdirSync(installed(name), { recursive: true })
    execFileSync("tar", ["-xzf", tarball, "-C", installed(name), "--strip-components=1"])
    const { messages, pkg } = await publint({ pkgDir: installed(name), pack: false, strict: true })
    for (const message of messages) problems.push(`${name}: ${formatMessage(message, pkg, { color: false })}`)
    const packed = readManifest(join(installed(name), "package.json"))
    link(installed(name), join(folder, "node_modules", name))
    for (const [dependency, range] of Object.entries({ ...packed.dependencies, ...packed.peerDependencies })) {
      if (/^(workspace|catalog|file|link):/.test(range)) problems.push(`${name}: packed with ${dependency} as ${range}`)
      const source = join(path, "node_modules", dependency)
      const ours = publishable.some((one) => one.name === dependency)
      if (ours) link(installed(dependency), beside(name, dependency))
      else if (existsSync(source)) link(realpathSync(source), beside(name, dependency))
    }
  }

  link(realpathSync(join(root, "node_modules/@types/node")), join(folder, "node_modules/@types/node"))
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }))
  writeFileSync(
    join(folder, "types.ts"),
    publishable.flatMap((one) => specifiersOf(one.name)).map((one, index) => `export * as m${index} from "${one}"`).join("\n")
  )
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: { module: "nodenext", target: "es2024", strict: true, noEmit: true, types: ["node"], skipLibCheck: false },
      files: ["types.ts"]
    })
  )
  const hint =
    "A module that is not found must be in `dependencies`. A test runner that a testing module imports must be in optional `peerDependencies`."
  run("Type check", hint, [join(root, "node_modules/typescript/bin/tsc"), "-p", "."])

  // Entry points only, because other modules may be programs, or may need a test runner.
  const entries = publishable.filter((one) => specifiersOf(one.name).includes(one.name)).map((one) => one.name)
  writeFileSync(join(folder, "run.js"), entries.map((one) => `await import("${one}")`).join("\n"))
  run("Import", hint, ["run.js"])
} finally {
  rmSync(folder, { recursive: true, force: true })
}

for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

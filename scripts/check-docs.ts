/**
 * Type-checks the TypeScript in the documentation: each block marked `ts` in the READMEs and in docs/.
 * Also checks links (doc-links.ts), and the comments that say how a page's blocks run (doc-plan.ts).
 *
 * doc-blocks.ts defines a block. Each line keeps its number, so the line numbers in the compiler's messages match the page.
 */
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { blocksOf, pagesOf } from "./doc-blocks.ts"
import { brokenLinks } from "./doc-links.ts"
import { planOf, runPagesOf } from "./doc-plan.ts"
import { packages, readManifest, root } from "./workspace.ts"

/** Ignored by git, and created from scratch on every run. */
const folder = join(root, ".stint/docs")

/** Writes the blocks of a page as modules and returns how many there are. */
const extract = (page: string): number => {
  const blocks = blocksOf(readFileSync(join(root, page), "utf8"))
  mkdirSync(dirname(join(folder, page)), { recursive: true })
  for (const { file, first, lines } of blocks) {
    writeFileSync(join(folder, `${page}.${first}.ts`), [...lines, "export {}\n"].join("\n"))
    if (file !== undefined) {
      writeFileSync(join(dirname(join(folder, page)), file), `export * from "./${page.split("/").at(-1)}.${first}.ts"\n`)
    }
  }
  return blocks.length
}

/**
 * Resolves imports to the `exports` of workspace packages, and to the dependencies of any of these packages, because the documentation is not
 * a package and has no dependencies of its own.
 */
const importPaths = (): Record<string, ReadonlyArray<string>> => {
  const paths: Record<string, ReadonlyArray<string>> = {}
  for (const { manifest, name, path } of packages) {
    for (const [key, target] of Object.entries(manifest.exports ?? {})) {
      if (target !== null) paths[join(name, key)] = [join(relative(folder, path), target)]
    }
    for (const dependency of Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })) {
      const installed = join(path, "node_modules", dependency)
      if (paths[dependency] !== undefined || !existsSync(join(installed, "package.json"))) continue
      const { types, typings } = readManifest(join(installed, "package.json"))
      const declarations = types ?? typings
      if (declarations !== undefined) paths[dependency] = [relative(folder, join(installed, declarations))]
    }
  }
  return paths
}

rmSync(folder, { recursive: true, force: true })
const count = pagesOf(root).reduce((sum, page) => sum + extract(page), 0)
const options = { noEmit: true, noUnusedLocals: false, noUnusedParameters: false, paths: importPaths() }
writeFileSync(
  join(folder, "tsconfig.json"),
  JSON.stringify({ extends: relative(folder, join(root, "tsconfig.base.json")), compilerOptions: options, include: ["**/*.ts"] })
)
const { status, stdout } = spawnSync(join(root, "node_modules/.bin/tsc"), [
  "--pretty",
  "false",
  "-p",
  join(folder, "tsconfig.json")
], {
  cwd: root,
  encoding: "utf8"
})
process.stdout.write(stdout.replaceAll(/^\.stint\/docs\/(.+?\.md)\.\d+\.ts/gm, "$1"))
if (count === 0) {
  process.stdout.write("Found no TypeScript block in the documentation. The check reads blocks that start with ```ts.\n")
}
// docs-run.long.test.ts runs the blocks of these pages. A mistake in a comment is reported here, before they run.
const mistakes = runPagesOf(root).flatMap((page) =>
  (["clone", "packages"] as const).flatMap((setting) =>
    planOf(readFileSync(join(root, page), "utf8"), setting).problems.map((problem) => `${page}, ${problem}`)
  )
)
const broken = [...brokenLinks(), ...new Set(mistakes)]
for (const line of broken) process.stdout.write(`${line}\n`)
process.exitCode = count === 0 || broken.length > 0 ? 1 : status ?? 1

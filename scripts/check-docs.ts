/**
 * Type-checks the TypeScript of the documentation: every block of the README and of docs/ that is marked `ts`. Checks its links, too: see
 * `doc-links.ts`.
 *
 * A block is a module of its own. What it takes for granted stands before it in a comment, which readers do not see:
 *
 * ```
 *   <!-- given
 *   import * as sdk from "@stint/sdk"
 *   declare const resize: (file: string) => Promise<Uint8Array>
 *   -->
 *
 *   <!-- follows -->            goes on from the block before, with everything that this one had
 *   <!-- file: report.ts -->    other blocks of the page can import it as ./report.ts
 * ```
 *
 * A line keeps its number, so that what the compiler says is about the page.
 */
import { spawnSync } from "node:child_process"
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { brokenLinks } from "./doc-links.ts"
import { packages, readManifest, root } from "./workspace.ts"

/** Ignored by git, and made anew each time. */
const folder = join(root, ".stint/docs")

interface Block {
  /** Those of the page, with everything that is not the block's left blank. */
  readonly lines: ReadonlyArray<string>
  /** Where its code begins, from 1. */
  readonly first: number
  readonly file: string | undefined
}

/** The blocks of a page. */
const blocksOf = (source: string): ReadonlyArray<Block> => {
  const blocks: Array<Block> = []
  let inside: "text" | "given" | "code" | "other" = "text"
  let own: Array<readonly [number, string]> = []
  let file: string | undefined
  let follows = false
  let first = 0
  for (const [index, line] of source.split("\n").entries()) {
    switch (inside) {
      case "text":
        if (line === "<!-- given") inside = "given"
        else if (line === "<!-- follows -->") follows = true
        else if (line.startsWith("<!-- file: ")) file = line.split(" ")[2]
        else if (line === "```ts") {
          inside = "code"
          first = index + 2
        } else if (line.startsWith("```")) inside = "other"
        break
      case "given":
        if (line === "-->") inside = "text"
        else own.push([index, line])
        break
      case "code":
        if (line !== "```") {
          own.push([index, line])
          break
        }
        {
          const lines = Array.from({ length: index }, (_, at) => follows ? blocks.at(-1)?.lines[at] ?? "" : "")
          for (const [at, text] of own) lines[at] = text
          blocks.push({ lines, first, file })
        }
        own = []
        file = undefined
        follows = false
        inside = "text"
        break
      case "other":
        if (line === "```") inside = "text"
        break
    }
  }
  return blocks
}

/** Writes the blocks of a page as modules; how many there are. */
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

/** Where imports lead: to our packages as their `exports` say, and to what any of them depends on. The documentation is no package. */
const importPaths = (): Record<string, ReadonlyArray<string>> => {
  const paths: Record<string, ReadonlyArray<string>> = {}
  for (const { manifest, name, path } of packages) {
    for (const [key, target] of Object.entries(manifest.exports ?? {})) {
      paths[join(name, key)] = [join(relative(folder, path), target)]
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
const count = globSync(["README.md", "docs/**/*.md"], { cwd: root }).reduce((sum, page) => sum + extract(page), 0)
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
if (count === 0) process.stdout.write("No block of TypeScript was found in the documentation.\n")
const broken = brokenLinks()
for (const line of broken) process.stdout.write(`${line}\n`)
process.exitCode = count === 0 || broken.length > 0 ? 1 : status ?? 1

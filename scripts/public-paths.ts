/**
 * Determines the public paths of each package, from which its `exports` are derived.
 *
 * A path is public when a file outside the package imports it: another package, an example, a benchmark, or a block in the documentation.
 * `.` (src/index.ts) and `./testing` (src/testing.ts or src/testing/index.ts) are always public. A package's tests import non-public
 * modules by their file path.
 *
 * A path contains the name of the module, not its folder: `@stint/store/JobRecord` is src/jobs/JobRecord.ts. When two modules of a package
 * have the same name, the path includes the folder. `src/internal/` has no public paths.
 */
import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { blocksOf, pagesOf } from "./doc-blocks.ts"
import { type Exports, isPublished, type Package } from "./workspace.ts"

/** A file that imports a module of a package. */
interface Import {
  /** The path from the root. */
  readonly file: string
  readonly specifier: string
  /** The part after the package name: `JobRecord`; empty for the package itself. */
  readonly path: string
}

/** An import by a package's own file that must name the module's file instead. */
export interface OwnImport extends Import {
  /** The relative specifier that replaces it. */
  readonly replacement: string
}

/** The public paths of one package, derived from the imports. */
interface PublicPaths {
  readonly exports: Exports
  /** The first file that imports each path. Keys are as in `exports`. */
  readonly importers: ReadonlyMap<string, string>
  /** Imports of non-public paths by the package's own files. */
  readonly ownImports: ReadonlyArray<OwnImport>
  readonly problems: ReadonlyArray<string>
}

/** Matches `from "x"`, `import("x")` and `import.meta.resolve("x")`, even inside the text of a generated program. */
const IMPORT = /\b(?:from|import|resolve)\s*\(?\s*\\?["'`](@[\w-]+\/[\w-]+)((?:\/[\w.-]+)*)(?=\\?["'`])/g

/** Examples in comments are not compiled, so their imports do not count. */
const withoutComments = (source: string) => source.replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, "")

/** Every import of a workspace package, grouped by package name. */
const importsOf = (root: string, packages: ReadonlyArray<Package>): ReadonlyMap<string, ReadonlyArray<Import>> => {
  const found = new Map(packages.map(({ name }) => [name, new Array<Import>()]))
  const add = (file: string, source: string) => {
    for (const [, name = "", path = ""] of source.matchAll(IMPORT)) {
      found.get(name)?.push({ file, specifier: name + path, path: path.slice(1) })
    }
  }
  const folders = packages.map(({ folder }) => isPublished(folder) ? `${folder}/{src,test}` : folder)
  const sources = globSync([...folders, "scripts"].map((folder) => `${folder}/**/*.{ts,tsx,mts,js,mjs}`), {
    cwd: root,
    // Excluded, because the scripts' tests contain modules from a workspace that does not exist.
    exclude: ["**/node_modules", "**/dist", "**/.stint", "scripts/test"]
  })
  for (const file of [...new Set(sources)].toSorted()) add(file, withoutComments(readFileSync(join(root, file), "utf8")))
  for (const page of pagesOf(root)) {
    for (const { lines } of blocksOf(readFileSync(join(root, page), "utf8"))) add(page, lines.join("\n"))
  }
  return found
}

/** The files that a path can refer to. A path with more than one file is ambiguous. `./verify` may refer to src/Verify.ts. */
const modulesOf = (files: ReadonlyArray<string>, path: string): ReadonlyArray<string> => {
  const names = [`${path}.ts`, `${path}.tsx`, `${path}/index.ts`]
  const lower = names.map((name) => `/${name.toLowerCase()}`)
  const ways: ReadonlyArray<(file: string) => boolean> = [
    (file) => names.includes(file),
    (file) => names.some((name) => file.endsWith(`/${name}`)),
    (file) => lower.some((name) => `/${file.toLowerCase()}`.endsWith(name))
  ]
  return ways.map((isMeant) => files.filter(isMeant)).find((found) => found.length > 0) ?? []
}

const publicPathsOf = ({ folder, path: packageFolder }: Package, imports: ReadonlyArray<Import>): PublicPaths => {
  const files = globSync("**/*.{ts,tsx}", { cwd: join(packageFolder, "src") }).toSorted()
  const problems: Array<string> = []
  const found = new Map<string, string>()
  const importers = new Map<string, string>()
  const own: Array<OwnImport> = []

  /** Adds a path and returns its key in `exports`. */
  const add = (path: string, file: string) => {
    const key = path === "" ? "." : `./${path}`
    found.set(key, `./src/${file}`)
    return key
  }
  const [entry] = modulesOf(files, "index")
  if (entry !== undefined) add("", entry)
  const [testing] = files.filter((file) => file === "testing.ts" || file === "testing/index.ts")
  if (testing !== undefined) add("testing", testing)

  const isOwn = ({ file }: Import) => file.startsWith(`${folder}/`) && !file.endsWith(".md")
  for (const one of [...imports.filter((one) => !isOwn(one)), ...imports.filter(isOwn)]) {
    const [file, second] = modulesOf(files, one.path || "index")
    const key = `./${one.path}`
    if (file === undefined) {
      problems.push(`${one.file} imports ${one.specifier}, but ${folder}/src has no such module.`)
    } else if (second !== undefined) {
      problems.push(
        `${one.file} imports ${one.specifier}, which is ambiguous: ${folder}/src/${file} or ${folder}/src/${second}. Include the folder in ` +
          "the path, or rename one of the files."
      )
    } else if (!isOwn(one) && file.startsWith("internal/")) {
      problems.push(
        `${one.file} imports ${one.specifier}, which is internal. Move it out of ${folder}/src/internal if others need it.`
      )
    } else if (!isOwn(one)) {
      const added = add(one.path, file)
      if (!importers.has(added)) importers.set(added, one.file)
    } else if (one.path !== "" && !found.has(key)) {
      const target = relative(dirname(one.file), join(folder, "src", file))
      own.push({ ...one, replacement: target.startsWith(".") ? target : `./${target}` })
    }
  }

  const sorted = [...found].toSorted(([a], [b]) => a < b ? -1 : 1)
  return { exports: Object.fromEntries([...sorted, ["./internal/*", null]]), importers, ownImports: own, problems }
}

/** The public paths of every published package that has a src/, by the package's name. */
export const publicPaths = (root: string, packages: ReadonlyArray<Package>): ReadonlyMap<string, PublicPaths> => {
  const imports = importsOf(root, packages)
  return new Map(
    packages.filter(({ folder, path }) => isPublished(folder) && existsSync(join(path, "src"))).map((one) => [
      one.name,
      publicPathsOf(one, imports.get(one.name) ?? [])
    ])
  )
}

/** Returns one line for each path in which the `exports` of a package differ from its public paths. */
export const exportsProblems = (
  { folder, manifest }: Pick<Package, "folder" | "manifest">,
  { exports, importers }: PublicPaths
): ReadonlyArray<string> => {
  const declared = manifest.exports ?? {}
  const say = (text: string) => `${folder}/package.json: exports ${text}`
  return [
    ...Object.entries(exports).flatMap(([key, target]) => {
      if (declared[key] === target) return []
      const reason = importers.has(key) ? `, which ${importers.get(key)} imports` : ""
      return declared[key] === undefined
        ? [say(`lacks ${key}${reason}. \`pnpm format\` adds it.`)]
        : [say(`leads ${key} to ${declared[key]}, not to ${target}. \`pnpm format\` corrects it.`)]
    }),
    ...Object.keys(declared).filter((key) => !(key in exports)).map((key) =>
      say(
        `has ${key}, which no other package, example, benchmark or documentation page imports. \`pnpm format\` removes it; ` +
          "a block of TypeScript in the package's README or in docs/ that imports it keeps it."
      )
    )
  ]
}

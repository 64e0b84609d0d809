/**
 * A handler file as one bundle, made once for each state of its sources.
 *
 * From its sources a worker loads hundreds of small modules and strips the types of each; as one file it starts about five times faster,
 * and cold starts are what users wait for. The bundle behaves like the file:
 *
 * - Bundled are the handler's own files, Stint, Effect and whatever depends on Effect, so that there is one Effect in the worker. All other
 *   packages are imported from where they are installed, which keeps native addons and packages that read their own files working.
 * - `import.meta.url`, `dirname` and `filename` are those of each source file.
 * - Stack traces name the sources, by a source map (`node --enable-source-maps`).
 *
 * What is loaded by `import()` stays apart, in a chunk of its own: a start pays only for what it uses, and that is one chunk (`StartupChunk`).
 *
 * ```
 *   directory/<hash of the file's path>/
 *     recipe.json          which bundle is good, and what it was made from; written last
 *     <bundle>/worker.mjs  + chunks; a finished bundle never changes
 * ```
 *
 * A bundle is used again as long as none of its inputs changed, and every package that it imports is found where it was: an upgrade leaves
 * the files of the old version as they are and points to others. What cannot be bundled is run from its sources; the caller says so in the
 * log.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Metafile, Plugin } from "esbuild"
import { createHash } from "node:crypto"
import { existsSync } from "node:fs"
import { readdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { BUNDLE_OPTIONS, singleStartupChunk } from "./StartupChunk.ts"

const PROGRAM = "worker"
const RECIPE = "recipe.json"

/**
 * Bundles that are kept beside the newest: workers that run may still load a chunk. By the time of a second change they have been
 * replaced.
 */
const KEPT = 2

/** The file cannot be bundled; it may still run from its sources. */
export class BundleError extends Schema.TaggedError<BundleError>()("BundleError", {
  file: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `${this.file} cannot be bundled: ${this.problem}`
  }
}

/** What a bundle was made from: if all of it is as it was, the bundle is still good. */
const Recipe = Schema.fromJsonString(Schema.Struct({
  format: Schema.Literal(3),
  /** The folder of the bundle. */
  bundle: Schema.String,
  inputs: Schema.Array(Schema.Struct({ path: Schema.String, size: Schema.Number, mtimeMs: Schema.Number })),
  /** Where the packages were found: the folder in `node_modules`, and what it really is. */
  packages: Schema.Array(Schema.Struct({ link: Schema.String, target: Schema.String }))
}))

const decodeRecipe = Schema.decodeUnknownEffect(Recipe)
const encodeRecipe = Schema.encodeUnknownSync(Recipe)

const PackageJson = Schema.fromJsonString(Schema.Struct({
  name: Schema.optionalKey(Schema.String),
  dependencies: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
  peerDependencies: Schema.optionalKey(Schema.Record(Schema.String, Schema.String))
}))

const decodePackage = Schema.decodeUnknownSync(PackageJson)

/** Packages that belong into the bundle, because two copies of Effect in one worker would not know each other's values. */
const isEffectful = (manifest: typeof PackageJson.Type): boolean =>
  manifest.name === "effect" || manifest.name?.startsWith("@effect/") === true || manifest.name?.startsWith("@stint/") === true ||
  "effect" in { ...manifest.dependencies, ...manifest.peerDependencies }

/** The manifest of the package that a file belongs to. */
const manifestOf = async (file: string): Promise<typeof PackageJson.Type> => {
  for (let directory = dirname(file); directory !== dirname(directory); directory = dirname(directory)) {
    const manifest = join(directory, "package.json")
    if (!existsSync(manifest)) continue
    const decoded = decodePackage(await readFile(manifest, "utf8"))
    if (decoded.name !== undefined) return decoded
  }
  return {}
}

/** Marks our own second look at an import, so that it is not looked at for ever. */
const SEEN = Symbol("seen")

/** The folder that a package is found in, from a folder that imports it; undefined where it is no package in `node_modules`. */
const linkOf = (specifier: string, from: string): string | undefined => {
  const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/")
  for (let directory = from;; directory = dirname(directory)) {
    const link = join(directory, "node_modules", name)
    if (existsSync(link)) return link
    if (directory === dirname(directory)) return undefined
  }
}

/** Packages stay where they are installed, unless they have to share the bundle's Effect. Notes in `links` where they were found. */
const externalizePackages = (links: Set<string>): Plugin => ({
  name: "packages-stay-outside",
  setup(build) {
    const bundled = new Map<string, Promise<boolean>>()
    build.onResolve({ filter: /^[^./]/ }, async (args) => {
      if (args.kind === "entry-point" || args.pluginData === SEEN || args.path.startsWith("node:")) return undefined
      const { importer, kind, namespace, path, resolveDir } = args
      const link = linkOf(path, resolveDir)
      if (link !== undefined) links.add(link)
      const found = await build.resolve(path, { importer, kind, namespace, resolveDir, pluginData: SEEN })
      if (found.errors.length > 0 || found.external) return found
      const inside = bundled.get(found.path) ?? manifestOf(found.path).then(isEffectful)
      bundled.set(found.path, inside)
      return (await inside) ? { path: found.path } : { path: pathToFileURL(found.path).href, external: true }
    })
  }
})

/** In a bundle `import.meta` is the bundle's; each source gets its own back. */
const inlineImportMeta = (path: string, source: string): string | undefined =>
  source.includes("import.meta.")
    ? source
      .replaceAll(/\bimport\.meta\.url\b/g, JSON.stringify(pathToFileURL(path).href))
      .replaceAll(/\bimport\.meta\.dirname\b/g, JSON.stringify(dirname(path)))
      .replaceAll(/\bimport\.meta\.filename\b/g, JSON.stringify(path))
    : undefined

const inputOf = async (path: string) => {
  const { mtimeMs, size } = await stat(path)
  return { path, size, mtimeMs }
}

/** The program of a bundle. */
const programOf = (folder: string, bundle: string): string => join(folder, bundle, `${PROGRAM}.mjs`)

/** The bundle that the recipe tells of, if nothing that it was made from has changed. */
const freshBundle = Effect.fnUntraced(function*(folder: string) {
  const text = yield* Effect.tryPromise(() => readFile(join(folder, RECIPE), "utf8"))
  const { bundle, inputs, packages } = yield* decodeRecipe(text)
  const targets = yield* Effect.tryPromise(() => Promise.all(packages.map(({ link }) => realpath(link))))
  if (!packages.every(({ target }, index) => target === targets[index])) return undefined
  const program = programOf(folder, bundle)
  const now = yield* Effect.tryPromise(() => Promise.all([...inputs.map(({ path }) => inputOf(path)), inputOf(program)]))
  return inputs.every(({ mtimeMs, size }, index) => now[index]?.mtimeMs === mtimeMs && now[index].size === size)
    ? program
    : undefined
})

/** Removes all bundles of a handler but the newest, and those that other processes are still making. */
const prune = async (folder: string): Promise<void> => {
  const entries = await readdir(folder, { withFileTypes: true })
  const bundles = await Promise.all(
    entries.filter((entry) => entry.isDirectory()).map(async ({ name }) => ({
      name,
      at: (await stat(join(folder, name))).mtimeMs
    }))
  )
  const old = bundles.sort((a, b) => b.at - a.at).slice(1 + KEPT)
  await Promise.all(old.map(({ name }) => rm(join(folder, name), { recursive: true, force: true })))
}

const inputsOf = (metafile: Metafile, directory: string): ReadonlyArray<string> =>
  Object.keys(metafile.inputs).filter((path) => !path.startsWith("<")).map((path) => resolve(directory, path))

const build = async (file: string, directory: string, links: Set<string>): Promise<Metafile> => {
  const esbuild = await import("esbuild")
  const { metafile } = await esbuild.build({
    ...BUNDLE_OPTIONS,
    absWorkingDir: dirname(file),
    entryPoints: { [PROGRAM]: file },
    outdir: directory,
    outExtension: { ".js": ".mjs" },
    logLevel: "silent",
    plugins: [singleStartupChunk(file, inlineImportMeta), externalizePackages(links)],
    // CommonJS files among the handler's own still have `require`.
    banner: {
      js: `import { createRequire as stintCreateRequire } from "node:module"; const require = stintCreateRequire(${
        JSON.stringify(pathToFileURL(file).href)
      });`
    }
  })
  return metafile
}

const folderOf = (file: string, directory: string) =>
  join(directory, createHash("sha256").update(file).digest("hex").slice(0, 16))

/** The bundle of a handler file that is kept in `directory`, if there is one that is still good. Costs a look at each of its inputs. */
export const find = Effect.fn("HandlerBundle.find")(function*(file: string, directory: string) {
  return yield* Effect.orElseSucceed(freshBundle(folderOf(file, directory)), () => undefined)
})

/**
 * The bundle of a handler file, kept in `directory`; made if there is none that is still good.
 *
 * Two who ask at once both build, each into a folder of its own; the recipe of the later one counts.
 */
export const bundle = Effect.fn("HandlerBundle.bundle")(function*(file: string, directory: string) {
  const found = yield* find(file, directory)
  if (found !== undefined) return found
  const folder = folderOf(file, directory)
  return yield* Effect.tryPromise({
    try: async () => {
      const name = `${Date.now()}-${process.pid}-${Math.random().toString(36).slice(2)}`
      const links = new Set<string>()
      const startedAt = Date.now()
      const metafile = await build(file, join(folder, name), links)
      const inputs = await Promise.all(inputsOf(metafile, dirname(file)).map(inputOf))
      const packages = await Promise.all([...links].map(async (link) => ({ link, target: await realpath(link) })))
      // What changed while it was read may be in the bundle or not: such a bundle is used once.
      if (inputs.every(({ mtimeMs }) => mtimeMs < startedAt)) {
        const recipe = join(folder, `${name}.json`)
        await writeFile(recipe, encodeRecipe({ format: 3, bundle: name, inputs, packages }))
        await rename(recipe, join(folder, RECIPE))
      }
      await prune(folder)
      return programOf(folder, name)
    },
    catch: (cause) => new BundleError({ file, problem: cause instanceof Error ? cause.message : String(cause) })
  })
})

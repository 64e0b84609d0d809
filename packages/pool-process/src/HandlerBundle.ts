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
 * A bundle is used again as long as none of its inputs changed, and every package that it imports is found where it was: an upgrade leaves
 * the files of the old version as they are and points to others. What cannot be bundled is run from its sources; the caller says so in the
 * log.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Metafile, Plugin } from "esbuild"
import { createHash } from "node:crypto"
import { existsSync } from "node:fs"
import { mkdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises"
import { dirname, extname, join, resolve } from "node:path"
import { pathToFileURL } from "node:url"

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
  format: Schema.Literal(2),
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
const packagesStayOutside = (links: Set<string>): Plugin => ({
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

/**
 * The local API of a worker stays outside: on a platform it is never loaded, and with a module inside that is loaded later, all that it
 * shares with the rest becomes code that is loaded later. That is about 5 ms of each cold start.
 */
const localApiStaysOutside: Plugin = {
  name: "local-api-stays-outside",
  setup(build) {
    build.onResolve({ filter: /\/LocalServe\.[jt]s$/ }, async ({ importer, kind, path, resolveDir }) => {
      if (kind !== "dynamic-import" || (await manifestOf(importer)).name !== "@stint/worker") return undefined
      return { path: pathToFileURL(resolve(resolveDir, path)).href, external: true }
    })
  }
}

/** In a bundle `import.meta` is the bundle's; each source gets its own back. */
const ownLocation: Plugin = {
  name: "own-location",
  setup(build) {
    build.onLoad({ filter: /\.[cm]?[jt]sx?$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8")
      if (!source.includes("import.meta.")) return undefined
      const contents = source
        .replaceAll(/\bimport\.meta\.url\b/g, JSON.stringify(pathToFileURL(path).href))
        .replaceAll(/\bimport\.meta\.dirname\b/g, JSON.stringify(dirname(path)))
        .replaceAll(/\bimport\.meta\.filename\b/g, JSON.stringify(path))
      const extension = extname(path)
      return {
        contents,
        loader: extension.endsWith("tsx") ? "tsx" : extension.includes("ts") ? "ts" : extension.endsWith("jsx") ? "jsx" : "js"
      }
    })
  }
}

const inputOf = async (path: string) => {
  const { mtimeMs, size } = await stat(path)
  return { path, size, mtimeMs }
}

const isFresh = Effect.fnUntraced(function*(recipeFile: string) {
  const text = yield* Effect.tryPromise(() => readFile(recipeFile, "utf8"))
  const { inputs, packages } = yield* decodeRecipe(text)
  const targets = yield* Effect.tryPromise(() => Promise.all(packages.map(({ link }) => realpath(link))))
  if (!packages.every(({ target }, index) => target === targets[index])) return false
  const now = yield* Effect.tryPromise(() => Promise.all(inputs.map(({ path }) => inputOf(path))))
  return inputs.every(({ mtimeMs, size }, index) => now[index]?.mtimeMs === mtimeMs && now[index].size === size)
})

const inputsOf = (metafile: Metafile, directory: string): ReadonlyArray<string> =>
  Object.keys(metafile.inputs).filter((path) => !path.startsWith("<")).map((path) => resolve(directory, path))

const build = async (file: string, output: string, links: Set<string>): Promise<Metafile> => {
  const esbuild = await import("esbuild")
  const { metafile } = await esbuild.build({
    absWorkingDir: dirname(file),
    entryPoints: [file],
    outfile: output,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node22",
    sourcemap: "linked",
    sourcesContent: false,
    legalComments: "none",
    logLevel: "silent",
    metafile: true,
    plugins: [localApiStaysOutside, packagesStayOutside(links), ownLocation],
    // CommonJS files among the handler's own still have `require`.
    banner: {
      js: `import { createRequire as stintCreateRequire } from "node:module"; const require = stintCreateRequire(${
        JSON.stringify(pathToFileURL(file).href)
      });`
    }
  })
  return metafile
}

const placesOf = (file: string, directory: string) => {
  const folder = join(directory, createHash("sha256").update(file).digest("hex").slice(0, 16))
  return { folder, output: join(folder, "worker.mjs"), recipeFile: join(folder, "recipe.json") }
}

/** The bundle of a handler file that is kept in `directory`, if there is one that is still good. Costs a look at each of its inputs. */
export const find = Effect.fn("HandlerBundle.find")(function*(file: string, directory: string) {
  const { output, recipeFile } = placesOf(file, directory)
  return (yield* Effect.orElseSucceed(isFresh(recipeFile), () => false)) ? output : undefined
})

/**
 * The bundle of a handler file, kept in `directory`; made if there is none that is still good.
 *
 * Two who ask at once both build; the later one replaces the bundle of the earlier by renaming, so no worker ever reads half of one.
 */
export const bundle = Effect.fn("HandlerBundle.bundle")(function*(file: string, directory: string) {
  const found = yield* find(file, directory)
  if (found !== undefined) return found
  const { folder, output, recipeFile } = placesOf(file, directory)
  return yield* Effect.tryPromise({
    try: async () => {
      await mkdir(folder, { recursive: true })
      const fresh = join(folder, `${process.pid}-${Math.random().toString(36).slice(2)}.mjs`)
      const links = new Set<string>()
      const startedAt = Date.now()
      const metafile = await build(file, fresh, links)
      const inputs = await Promise.all(inputsOf(metafile, dirname(file)).map(inputOf))
      const packages = await Promise.all([...links].map(async (link) => ({ link, target: await realpath(link) })))
      // The name of its map stands in a bundle, so the map is moved, and named anew, with it.
      const text = await readFile(fresh, "utf8")
      await writeFile(fresh, text.replace(/\/\/# sourceMappingURL=.*\s*$/, "//# sourceMappingURL=worker.mjs.map\n"))
      // Between the two renames the recipe is that of neither.
      await rm(recipeFile, { force: true })
      await rename(`${fresh}.map`, `${output}.map`)
      await rename(fresh, output)
      // What changed while it was read may be in the bundle or not: such a bundle is used once.
      if (inputs.every(({ mtimeMs }) => mtimeMs < startedAt)) {
        await writeFile(recipeFile, encodeRecipe({ format: 2, inputs, packages }))
      }
      return output
    },
    catch: (cause) => new BundleError({ file, problem: cause instanceof Error ? cause.message : String(cause) })
  })
})

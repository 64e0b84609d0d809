/**
 * Bundles a handler file, once for each version of its sources.
 *
 * A worker that runs from its sources loads hundreds of small modules and strips the types from each. A bundle starts about five times
 * faster, which shortens every cold start. The bundle behaves like the original file:
 *
 * - It contains the handler's own files, Stint, Effect and every package that depends on Effect, so that the worker has one copy of Effect. All
 *   other packages are imported from their installation, so that native addons and packages that read their own files work.
 * - `import.meta.url`, `dirname` and `filename` have the same values as in the source file.
 * - Stack traces name the sources through a source map (`node --enable-source-maps`).
 *
 * Modules loaded by `import()` are separate chunks. At startup, a worker loads only the modules it uses: one chunk of its own files, and one of Stint
 * and Effect, which a standby process loads in advance (`StartupChunk`, `RuntimeChunk`).
 *
 * ```
 *   directory/<hash of the file's path>/
 *     recipe.json           the current bundle and its inputs; written last
 *     <bundle>/worker.mjs   the program
 *              runtime.mjs  loads only Stint and Effect
 *              + chunks; a finished bundle never changes
 * ```
 *
 * A bundle is reused while its inputs are unchanged and every imported package resolves to the same folder; an upgrade changes that folder.
 * A file that cannot be bundled runs from its sources, and the caller logs the failure.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Metafile, Plugin } from "esbuild"
import { createHash } from "node:crypto"
import { existsSync } from "node:fs"
import { chmod, readdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises"
import { dirname, join, resolve, sep } from "node:path"
import { pathToFileURL } from "node:url"
import { RUNTIME, RUNTIME_INPUT, runtimeChunk } from "./RuntimeChunk.ts"
import { sourcesOf, thin } from "./SourceMapThinning.ts"
import { BUNDLE_OPTIONS, inputPaths, singleStartupChunk } from "./StartupChunk.ts"
import type { StartChunks } from "./StartupChunk.ts"
import { isOwnPackage, linkOf } from "./StintPackages.ts"
import { type BundlePermissions, OWNER_ONLY } from "./WorkerUser.ts"

const PROGRAM = "worker"
const RECIPE = "recipe.json"

/**
 * The Node options for a bundle. Source maps are required for source names in stack traces. V8's space for new objects begins with 8 MiB, and not with 1, so
 * that no garbage is collected before the first take, which comes 4 ms sooner. The process occupies no more memory at that time.
 */
export const BUNDLE_NODE_OPTIONS: ReadonlyArray<string> = ["--enable-source-maps", "--min-semi-space-size=8"]

/**
 * The number of older bundles to keep, because running workers may still load a chunk of the previous bundle. By the time of a second
 * change, those workers have been replaced.
 */
const KEPT = 2

/** The file cannot be bundled. It may still run from its sources. */
export class BundleError extends Schema.TaggedError<BundleError>()("BundleError", {
  file: Schema.String,
  problem: Schema.String,
  /** The mistakes in the sources, with file, line and the line's text. Empty when the sources are not the cause. */
  mistakes: Schema.Array(Schema.String),
  /** The files that contain the mistakes. */
  files: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return `${this.file} cannot be bundled: ${this.problem}`
  }
}

/** The inputs of a bundle. The bundle is valid while they are unchanged. */
const Recipe = Schema.fromJsonString(Schema.Struct({
  format: Schema.Literal(7),
  /** The bundle's folder. */
  bundle: Schema.String,
  inputs: Schema.Array(Schema.Struct({ path: Schema.String, size: Schema.Number, mtimeMs: Schema.Number })),
  /** The imported packages, each with its folder in `node_modules` and that folder's real path. */
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

/** Whether a package must be inside the bundle, because two copies of Effect in one worker would not recognize each other's values. */
const isEffectful = (manifest: typeof PackageJson.Type): boolean =>
  manifest.name === "effect" || manifest.name?.startsWith("@effect/") === true || manifest.name?.startsWith("@stint/") === true ||
  "effect" in { ...manifest.dependencies, ...manifest.peerDependencies }

/** The package.json of the package that contains a file. */
const manifestOf = async (file: string): Promise<typeof PackageJson.Type> => {
  for (let directory = dirname(file); directory !== dirname(directory); directory = dirname(directory)) {
    const manifest = join(directory, "package.json")
    if (!existsSync(manifest)) continue
    const decoded = decodePackage(await readFile(manifest, "utf8"))
    if (decoded.name !== undefined) return decoded
  }
  return {}
}

/** Marks this plugin's own resolve calls, so that it does not handle them again. */
const SEEN = Symbol("seen")

/**
 * Leaves packages out of the bundle unless they must share its copy of Effect, and records their folders in `links`. `importers`: see
 * `StintPackages`. With `used`, the modules of Stint and Effect stay outside, too, and it receives the ones that are imported at the start.
 */
const externalizePackages = (links: Set<string>, importers: ReadonlyArray<string>, used?: Set<string>): Plugin => ({
  name: "packages-stay-outside",
  setup(build) {
    const manifests = new Map<string, Promise<typeof PackageJson.Type>>()
    build.onResolve({ filter: /^[^./]/ }, async (args) => {
      if (args.kind === "entry-point" || args.pluginData === SEEN || args.path.startsWith("node:")) return undefined
      const { importer, kind, namespace, path } = args
      const own = isOwnPackage(path) ? importers.map((importer) => dirname(importer)) : []
      const resolveDir = [args.resolveDir, ...own].find((directory) => linkOf(path, directory) !== undefined) ?? args.resolveDir
      const link = linkOf(path, resolveDir)
      if (link !== undefined) links.add(link)
      const found = await build.resolve(path, { importer, kind, namespace, resolveDir, pluginData: SEEN })
      if (found.errors.length > 0 || found.external) return found
      const reading = manifests.get(found.path) ?? manifestOf(found.path)
      manifests.set(found.path, reading)
      const manifest = await reading
      const outside = { path: pathToFileURL(found.path).href, external: true }
      if (!isEffectful(manifest)) return outside
      if (used === undefined || manifest.name === undefined || !isOwnPackage(manifest.name)) return { path: found.path }
      if (kind === "import-statement") used.add(found.path)
      return outside
    })
  }
})

/** `import.meta` as an argument or a value, as in `serverless.start({ handler }, import.meta)`. */
const WHOLE_META = /(?<=[,(=:]\s*)import\.meta(?=\s*[),;}\n])/g

/**
 * Restores each source file's own `import.meta`, which would otherwise be the bundle's. `main` is true only for the handler's file, because the
 * bundle always runs as the program of a worker.
 */
const inlineImportMeta = (program: string) => (path: string, source: string): string | undefined =>
  source.includes("import.meta")
    ? source
      .replaceAll(
        WHOLE_META,
        JSON.stringify({ url: pathToFileURL(path).href, dirname: dirname(path), filename: path, main: path === program })
      )
      .replaceAll(/\bimport\.meta\.main\b/g, String(path === program))
      .replaceAll(/\bimport\.meta\.url\b/g, JSON.stringify(pathToFileURL(path).href))
      .replaceAll(/\bimport\.meta\.dirname\b/g, JSON.stringify(dirname(path)))
      .replaceAll(/\bimport\.meta\.filename\b/g, JSON.stringify(path))
    : undefined

/** The names in Effect's modules that format a stack trace while they load, to find out what the engine does with calls. */
const STACK_PROBES = /"~effect\/(?:Effect\/stackProbe|Utils\/internal)"/

/**
 * Formats the stack traces of these modules without the source map. Otherwise, Node would parse the map of the whole bundle at every start, which is a
 * third of the time that a standby process needs.
 */
const formatProbesPlainly = (source: string): string | undefined =>
  STACK_PROBES.test(source)
    ? "const stintFormat = Error.prepareStackTrace; " +
      `Error.prepareStackTrace = (error, sites) => [error, ...sites].join("\\n    at "); ${source}\nError.prepareStackTrace = stintFormat\n`
    : undefined

const inputOf = async (path: string) => {
  const { mtimeMs, size } = await stat(path)
  return { path, size, mtimeMs }
}

/** The entry file of a bundle in this folder. */
export const programIn = (folder: string): string => join(folder, `${PROGRAM}.mjs`)

const programOf = (folder: string, bundle: string): string => programIn(join(folder, bundle))

/** The bundle of the recipe, if its inputs are unchanged. */
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

/** Removes old bundles of a handler, except the newest and those that other processes are writing. */
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
  inputPaths(metafile).filter((path) => !path.startsWith("<") && path !== RUNTIME_INPUT).map((path) => resolve(directory, path))

/** Whether esbuild rejected a build because a module awaits at its top level. */
const awaitsAtTopLevel = (error: unknown): boolean =>
  typeof error === "object" && error !== null && "errors" in error && Array.isArray(error.errors) &&
  error.errors.some((one: { readonly text?: unknown }) => String(one.text).startsWith("Top-level await"))

const build = async (
  file: string,
  directory: string,
  links: Set<string>,
  importers: ReadonlyArray<string>
): Promise<Metafile> => {
  const withMeta = inlineImportMeta(await realpath(file))
  const change = (path: string, source: string) => {
    const changed = withMeta(path, source)
    return formatProbesPlainly(changed ?? source) ?? changed
  }
  const esbuild = await import("esbuild")
  const options = {
    ...BUNDLE_OPTIONS,
    sourcesContent: false,
    absWorkingDir: dirname(file),
    entryPoints: { [PROGRAM]: file },
    outdir: directory,
    outExtension: { ".js": ".mjs" },
    logLevel: "silent",
    // CommonJS files of the handler need `require`. The bundler renames a module's own `require`, but it does not know any other name that
    // a banner declares, so the banner declares no other name.
    banner: {
      js: `const require = globalThis.process.getBuiltinModule("node:module").createRequire(${
        JSON.stringify(pathToFileURL(file).href)
      });`
    }
  } as const
  const plugins = (start: StartChunks) => [
    singleStartupChunk(file, { change, localApiServer: (path) => pathToFileURL(path).href, start }),
    externalizePackages(links, importers)
  ]
  try {
    const used = new Set<string>()
    await esbuild.build({ ...options, write: false, plugins: [externalizePackages(new Set(), importers, used)] })
    const { metafile } = await esbuild.build({
      ...options,
      entryPoints: { ...options.entryPoints, [RUNTIME]: RUNTIME },
      supported: { "top-level-await": false },
      plugins: [runtimeChunk(used), ...plugins("one")]
    })
    return metafile
  } catch (error) {
    if (!awaitsAtTopLevel(error)) throw error
    // `await import("./model.ts")` at the top level would wait for itself: the lazy module would import the start that awaits it.
    const { metafile } = await esbuild.build({ ...options, plugins: plugins("split") })
    return metafile
  }
}

/** Removes most of the entries of Stint and Effect from the source maps of a bundle. */
const thinMaps = async (folder: string): Promise<void> => {
  const own = new Map<string, boolean>()
  const names = (await readdir(folder)).filter((name) => name.endsWith(".map"))
  await Promise.all(names.map(async (name) => {
    const text = await readFile(join(folder, name), "utf8")
    const directories = new Set(sourcesOf(text).map((source) => dirname(resolve(folder, source))))
    for (const directory of directories) {
      if (own.has(directory)) continue
      const manifest = await manifestOf(join(directory, PROGRAM))
      own.set(directory, manifest.name !== undefined && isOwnPackage(manifest.name))
    }
    await writeFile(join(folder, name), thin(text, (source) => own.get(dirname(resolve(folder, source))) === true))
  }))
}

/** esbuild creates files with the permissions that the umask allows. A bundle is one folder without subfolders. */
const applyPermissions = async (parent: string, folder: string, permissions: BundlePermissions): Promise<void> => {
  for (const path of [parent, folder]) await chmod(path, permissions.folder)
  await Promise.all((await readdir(folder)).map((name) => chmod(join(folder, name), permissions.file)))
}

const folderOf = (file: string, directory: string) =>
  join(directory, createHash("sha256").update(file).digest("hex").slice(0, 16))

/** Returns the valid bundle of a handler file in `directory`, if there is one. Checks each of the bundle's inputs on disk. */
export const find = Effect.fn("HandlerBundle.find")(function*(file: string, directory: string) {
  return yield* Effect.orElseSucceed(freshBundle(folderOf(file, directory)), () => undefined)
})

/** What a bundle was built from. */
export interface Inputs {
  /** The files in the bundle. */
  readonly files: ReadonlyArray<string>
  /** The folders of the packages that the bundle imports. */
  readonly packages: ReadonlyArray<string>
}

/** What the latest bundle of a handler file was built from; undefined when there is no bundle. */
export const inputs = Effect.fn("HandlerBundle.inputs")(function*(file: string, directory: string) {
  const read = Effect.tryPromise(() => readFile(join(folderOf(file, directory), RECIPE), "utf8"))
  const recipe = yield* Effect.option(Effect.flatMap(read, decodeRecipe))
  return Option.getOrUndefined(
    Option.map(recipe, ({ inputs, packages }): Inputs => ({
      files: inputs.map(({ path }) => path),
      packages: packages.map(({ target }) => target)
    }))
  )
})

/** Whether a file belongs to an installed package. */
export const isInstalled = (path: string): boolean => path.includes(`${sep}node_modules${sep}`)

/** The sources of the latest bundle of a handler file, without the sources of installed packages; undefined when there is no bundle. */
export const sources = (file: string, directory: string): Effect.Effect<ReadonlyArray<string> | undefined> =>
  Effect.map(inputs(file, directory), (found) => found?.files.filter((path) => !isInstalled(path)))

/** An exception that esbuild throws, with its errors. */
const decodeFailure = Schema.decodeUnknownOption(Schema.Struct({
  errors: Schema.Array(Schema.Struct({
    text: Schema.String,
    location: Schema.NullOr(Schema.Struct({
      file: Schema.String,
      line: Schema.Number,
      column: Schema.Number,
      length: Schema.Number,
      lineText: Schema.String
    }))
  }))
}))

/**
 * The esbuild errors that Node would report, too. A file type without an esbuild loader is not a mistake, because Node may load it.
 */
const mistakesOf = async (cause: unknown, directory: string): Promise<Pick<BundleError, "files" | "mistakes">> => {
  const mistakes = Option.match(decodeFailure(cause), { onNone: () => [], onSome: ({ errors }) => errors }).filter(({ text }) =>
    !text.startsWith("No loader is configured")
  )
  const { formatMessages } = await import("esbuild")
  return {
    mistakes: (await formatMessages(mistakes, { kind: "error", color: false })).map((text) => text.trim()),
    files: mistakes.flatMap(({ location }) => location === null ? [] : [resolve(directory, location.file)])
  }
}

/** Options for a bundle. */
export interface BundleOptions {
  /** Default: only the platform's user can read the bundle. */
  readonly permissions?: BundlePermissions
  /** Files whose imports of Stint and Effect are tried when the handler's folder has no installation. Default: none. */
  readonly importers?: ReadonlyArray<string>
}

/**
 * Returns the valid bundle of a handler file in `directory`, or builds a bundle when there is none.
 *
 * Each of two concurrent calls builds a bundle in its own folder, and the recipe that is written last wins.
 */
export const bundle = Effect.fn("HandlerBundle.bundle")(function*(
  file: string,
  directory: string,
  { importers = [], permissions = OWNER_ONLY }: BundleOptions = {}
) {
  const found = yield* find(file, directory)
  if (found !== undefined) return found
  const folder = folderOf(file, directory)
  return yield* Effect.tryPromise({
    try: async () => {
      const name = `${Date.now()}-${process.pid}-${Math.random().toString(36).slice(2)}`
      const links = new Set<string>()
      const startedAt = Date.now()
      const metafile = await build(file, join(folder, name), links, importers)
      await thinMaps(join(folder, name))
      await applyPermissions(folder, join(folder, name), permissions)
      const inputs = await Promise.all(inputsOf(metafile, dirname(file)).map(inputOf))
      const packages = await Promise.all([...links].map(async (link) => ({ link, target: await realpath(link) })))
      // The bundle may contain the old or the new version of an input that changed during the build, so it is used only once and gets no
      // recipe.
      if (inputs.every(({ mtimeMs }) => mtimeMs < startedAt)) {
        const recipe = join(folder, `${name}.json`)
        await writeFile(recipe, encodeRecipe({ format: 7, bundle: name, inputs, packages }), { mode: 0o600 })
        await rename(recipe, join(folder, RECIPE))
      }
      await prune(folder)
      return programOf(folder, name)
    },
    catch: (cause) => new Cause.UnknownError(cause)
  }).pipe(
    Effect.catch(({ cause }) =>
      Effect.flatMap(
        Effect.promise(() => mistakesOf(cause, dirname(file))),
        (mistakes) =>
          Effect.fail(new BundleError({ file, problem: cause instanceof Error ? cause.message : String(cause), ...mistakes }))
      )
    )
  )
})

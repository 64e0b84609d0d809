/**
 * Puts all modules that a bundled program loads at its start into one file.
 *
 * A bundler that splits code creates one chunk for each set of entries that share a module: one chunk for the modules that the start shares
 * with one lazy module, another for those that it shares with two. Without this plugin, a start would read ten small files instead of one,
 * at about half a millisecond each. The plugin makes each lazy module import the whole start, so that all sets become the same:
 *
 * ```
 *   without:  start --> {start, a}  {start, b}  {start, a, b}  ...        with:  start --> {start, a, b}
 *             a ------> {start, a}  {start, a, b}                                a ------> {start, a, b}
 * ```
 *
 * A lazy module loads after the start has run, so this import has no effect at run time.
 *
 * One module is the exception: the conversion to JSON Schema gets its own copies of everything that it imports ({@link OWN_COPIES}).
 */
import type { BuildOptions, Metafile, Plugin } from "esbuild"
import { readFile } from "node:fs/promises"
import { dirname, extname } from "node:path"

/** The esbuild options for such a program: it targets the workers' Node version and has a source map. */
export const BUNDLE_OPTIONS = {
  bundle: true,
  splitting: true,
  platform: "node",
  format: "esm",
  target: "node22",
  sourcemap: "linked",
  legalComments: "none",
  metafile: true
} as const satisfies BuildOptions

/** esbuild's loader for a file. */
const loaderOf = (path: string): "tsx" | "ts" | "jsx" | "js" => {
  const extension = extname(path)
  return extension.endsWith("tsx") ? "tsx" : extension.includes("ts") ? "ts" : extension.endsWith("jsx") ? "jsx" : "js"
}

/**
 * The server of local test mode is not part of the bundle. Otherwise, the modules that the server shares with the start would include
 * everything that the server uses from them, and the start would take 10 ms longer. The server shares no values with the worker, so it can
 * run with its own copy of Effect.
 */
const LOCAL_API_SERVER = /\/LocalApiServer\.[jt]s$/

/**
 * The conversion of a handler's Schemas to JSON Schema. A module that Schema.ts imports would become part of the start as soon as a lazy module uses it,
 * and the start of a worker would take 3 ms longer. The copies share no values with the start but the Schemas, whose classes they do not compare.
 */
const OWN_COPIES = /\/HandlerSchemaText\.[jt]s$/

/** The namespace of these copies. */
const COPY = "copy"

/** The paths of a bundle's inputs, as esbuild names them, without the copies. */
export const inputPaths = ({ inputs }: Metafile): ReadonlyArray<string> => [
  ...new Set(Object.keys(inputs).map((path) => path.startsWith(`${COPY}:`) ? path.slice(COPY.length + 1) : path))
]

/**
 * A name that the module does not contain. A published SDK is itself a program that this plugin has bundled, so its chunks already contain
 * the names that the plugin adds.
 */
const unusedName = (source: string): string => {
  let name = "stintStart"
  for (let attempt = 2; source.includes(name); attempt += 1) name = `stintStart${attempt}`
  return name
}

/**
 * `one`: one chunk for the start. The start must not await at its top level, because awaiting a lazy module there would never end: the lazy
 * module imports the start. `split`: the bundler's own chunks, which a start with a top-level `await` needs.
 */
export type StartChunks = "one" | "split"

/** Options for {@link singleStartupChunk}. */
export interface SingleStartupOptions {
  /**
   * Transforms the text of a file, which is needed because only one plugin can load a file. Returns undefined to leave the text unchanged.
   */
  readonly change?: (path: string, source: string) => string | undefined
  /** The import specifier of the local test mode server in the bundle, given the path of its file. */
  readonly localApiServer: (path: string) => string
  /** Default: `one`. */
  readonly start?: StartChunks
}

/** The plugin for a program with the entry file `entry`. */
export const singleStartupChunk = (entry: string, { change, localApiServer, start = "one" }: SingleStartupOptions): Plugin => ({
  name: "one-start-chunk",
  setup: (build) => {
    const late = new Set<string>()
    build.onResolve({ filter: /./ }, async ({ importer, kind, namespace, path, pluginData, resolveDir }) => {
      // Plugin data marks a plugin's own resolve call. Handling it would recurse forever.
      if (kind !== "dynamic-import" || pluginData !== undefined) return undefined
      const found = await build.resolve(path, { importer, kind, namespace, resolveDir, pluginData: "second look" })
      if (found.errors.length > 0 || found.external) return found
      if (LOCAL_API_SERVER.test(found.path)) return { path: localApiServer(found.path), external: true }
      if (OWN_COPIES.test(found.path)) return { path: found.path, namespace: COPY }
      if (start === "one") late.add(found.path)
      return { path: found.path }
    })
    build.onResolve({ filter: /./, namespace: COPY }, async ({ importer, kind, path, resolveDir }) => {
      const found = await build.resolve(path, { importer, kind, namespace: "file", resolveDir, pluginData: "second look" })
      return found.errors.length > 0 || found.external
        ? found
        : { path: found.path, namespace: COPY, sideEffects: found.sideEffects }
    })
    build.onLoad({ filter: /./, namespace: COPY }, async ({ path }) => ({
      contents: await readFile(path, "utf8"),
      loader: loaderOf(path),
      resolveDir: dirname(path)
    }))
    build.onLoad({ filter: /\.[cm]?[jt]sx?$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8")
      const changed = change?.(path, source)
      // The import cannot be added to a lazy CommonJS module, which has no exports, so its chunk is unchanged.
      if (!late.has(path) || path === entry || /\.c[jt]s$/.test(path) || !/^\s*export\b/m.test(source)) {
        return changed === undefined ? undefined : { contents: changed, loader: loaderOf(path) }
      }
      const contents = changed ?? source
      const name = unusedName(contents)
      const use = `\nimport * as ${name} from ${JSON.stringify(entry)}\nexport const ${name}With = () => ${name}\n`
      return { contents: contents + use, loader: loaderOf(path) }
    })
  }
})

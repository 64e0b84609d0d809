/**
 * Keeps everything that a bundled program starts with in one file, whatever it loads later.
 *
 * A bundler that splits puts a module into the chunk of exactly those who use it: what the start shares with one late module is one chunk,
 * what it shares with two is another. A start would read ten small files instead of one, about half a millisecond each. So each late module
 * is made to use the whole start; then all of them share the same things with it:
 *
 * ```
 *   without:  start --> {start, a}  {start, b}  {start, a, b}  ...        with:  start --> {start, a, b}
 *             a ------> {start, a}  {start, a, b}                                a ------> {start, a, b}
 * ```
 *
 * A late module is loaded when the start has run, so its import of it does nothing but count.
 */
import type { BuildOptions, Plugin } from "esbuild"
import { readFile } from "node:fs/promises"
import { extname } from "node:path"

/** How such a program is bundled, wherever it goes: for the Node that workers run on, with a map that names the sources. */
export const BUNDLE_OPTIONS = {
  bundle: true,
  splitting: true,
  platform: "node",
  format: "esm",
  target: "node22",
  sourcemap: "linked",
  sourcesContent: false,
  legalComments: "none",
  metafile: true
} as const satisfies BuildOptions

/** What esbuild reads a file as. */
export const loaderOf = (path: string): "tsx" | "ts" | "jsx" | "js" => {
  const extension = extname(path)
  return extension.endsWith("tsx") ? "tsx" : extension.includes("ts") ? "ts" : extension.endsWith("jsx") ? "jsx" : "js"
}

/**
 * The plugin for a program that starts with the file `entry`. `change` is what else is done to the text of a file, because one plugin alone
 * can read it: undefined leaves it as it is.
 */
export const singleStartupChunk = (entry: string, change: (path: string, source: string) => string | undefined): Plugin => ({
  name: "one-start-chunk",
  setup: (build) => {
    const late = new Set<string>()
    build.onResolve({ filter: /./ }, async ({ importer, kind, namespace, path, pluginData, resolveDir }) => {
      // Data of a plugin: somebody's second look at an import. A look at that would be looked at in turn, for ever.
      if (kind !== "dynamic-import" || pluginData !== undefined) return undefined
      const found = await build.resolve(path, { importer, kind, namespace, resolveDir, pluginData: "second look" })
      if (found.errors.length > 0 || found.external) return found
      late.add(found.path)
      return { path: found.path }
    })
    build.onLoad({ filter: /\.[cm]?[jt]sx?$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8")
      const changed = change(path, source)
      // A late module of CommonJS has no exports to add to; its chunk stays as it is.
      if (!late.has(path) || path === entry || /\.c[jt]s$/.test(path) || !/^\s*export\b/m.test(source)) {
        return changed === undefined ? undefined : { contents: changed, loader: loaderOf(path) }
      }
      const use = `\nimport * as stintStart from ${JSON.stringify(entry)}\nexport const stintStartedWith = () => stintStart\n`
      return { contents: (changed ?? source) + use, loader: loaderOf(path) }
    })
  }
})

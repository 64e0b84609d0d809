/**
 * Puts the modules of Stint and Effect that a bundled handler loads at its start into a chunk of their own, so that a process can load them before
 * it knows whether it will run this handler (see `StandbyWorkers`).
 *
 * A bundler makes a chunk for each set of entries that share a module. The bundle gets a second entry, which imports what the handler's own
 * files import from these packages:
 *
 * ```
 *   worker.mjs  --> the handler's own files --+
 *                                             +--> Stint and Effect
 *   runtime.mjs ------------------------------+
 * ```
 */
import type { Plugin } from "esbuild"
import { dirname, join, resolve } from "node:path"

/** The name of the second entry. */
export const RUNTIME = "runtime"

/** The second entry among the inputs of a metafile. */
export const RUNTIME_INPUT = `${RUNTIME}:${RUNTIME}`

/** The file that loads Stint and Effect, in the folder of a bundle. Some bundles have none. */
export const runtimeIn = (folder: string): string => join(folder, `${RUNTIME}.mjs`)

/** The plugin for the second entry, which imports `modules`. */
export const runtimeChunk = (modules: ReadonlySet<string>): Plugin => ({
  name: "runtime-chunk",
  setup: (build) => {
    build.onResolve(
      { filter: new RegExp(`^${RUNTIME}$`) },
      ({ kind, path }) => kind === "entry-point" ? { path, namespace: RUNTIME } : undefined
    )
    build.onLoad({ filter: /./, namespace: RUNTIME }, () => ({
      contents: Array.from(modules, (path) => `import ${JSON.stringify(path)}`).join("\n"),
      resolveDir: "/"
    }))
    // The bundler drops such an import if the module's package declares it as free of side effects. It uses what the first import of a module says, so
    // all of them must say the same.
    build.onResolve({ filter: /./, namespace: RUNTIME }, ({ path }) => ({ path, sideEffects: true }))
    build.onResolve({ filter: /^\.\.?\// }, ({ importer, kind, path }) => {
      const found = resolve(dirname(importer), path)
      return kind === "import-statement" && modules.has(found) ? { path: found, sideEffects: true } : undefined
    })
  }
})

/**
 * Finds Stint and Effect for handlers in folders that have no installation of them, such as a single file that a user tries out.
 *
 * The handler's own installation always comes first. Otherwise, the packages come from the platform's installation. Other packages must be
 * installed where the handler is: only Stint and Effect have to be the platform's own versions.
 */
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

/** The imports that may come from the platform's installation. */
const OWN_PACKAGE = /^(?:effect|@effect\/[^/]+|@stint\/[^/]+)(?:\/|$)/

/** Whether an import may come from the platform's installation. */
export const isOwnPackage = (specifier: string): boolean => OWN_PACKAGE.test(specifier)

/** The packages that a handler imports to start. */
const ENTRY_PACKAGES = ["@stint/sdk", "@stint/worker"]

/** The folder in `node_modules` to which an import from the folder `from` resolves; undefined when the package is not installed there. */
export const linkOf = (specifier: string, from: string): string | undefined => {
  const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/")
  for (let directory = from;; directory = dirname(directory)) {
    const link = join(directory, "node_modules", name)
    if (existsSync(link)) return link
    if (directory === dirname(directory)) return undefined
  }
}

/**
 * The files whose imports are tried instead of a handler's imports: `module`, a module of the platform, and the worker SDK that this module
 * can import, because the SDK's installation contains all plugins.
 */
export const importersFrom = (module: string): ReadonlyArray<string> => {
  const first = fileURLToPath(module)
  try {
    return [first, createRequire(module).resolve("@stint/sdk")]
  } catch {
    return [first]
  }
}

/** A module that adds the other installation to Node's resolution. Source text, because a worker loads it before it can load any part of Stint. */
const preloadOf = (importers: ReadonlyArray<string>): string =>
  `data:text/javascript,${
    encodeURIComponent(`
import { registerHooks } from "node:module"
const importers = ${JSON.stringify(importers.map((path) => pathToFileURL(path).href))}
registerHooks({
  resolve: (specifier, context, next) => {
    try {
      return next(specifier, context)
    } catch (error) {
      if (!${OWN_PACKAGE}.test(specifier)) throw error
      for (const parentURL of importers) {
        try {
          return next(specifier, { ...context, parentURL })
        } catch {}
      }
      throw error
    }
  }
})
`)
  }`

/**
 * The Node options with which a handler that runs from its sources finds the packages. None when the handler's folder has them: loading the
 * hooks takes some milliseconds.
 */
export const nodeOptionsFor = (file: string, importers: ReadonlyArray<string>): ReadonlyArray<string> =>
  importers.length === 0 || ENTRY_PACKAGES.some((name) => linkOf(name, dirname(file)) !== undefined)
    ? []
    : ["--import", preloadOf(importers)]

/** Adds the platform's installation, as `module` sees it, to the resolution of this process. Later imports may use it. */
export const addToThisProcess = async (module: string): Promise<void> => {
  await import(preloadOf(importersFrom(module)))
}

/**
 * Chooses the file that Node runs for a handler: its bundle when there is a valid one, or else the file itself.
 *
 * A worker start never waits for bundling, which takes longer than starting from the sources. Bundles are built in the background for the
 * next start, one handler at a time, so that bundling uses at most one core.
 */
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as HandlerBundle from "./HandlerBundle.ts"
import { nodeOptionsFor } from "./StintPackages.ts"

/** The file to run, and its Node options. */
export interface EntryPoint {
  readonly path: string
  readonly nodeOptions: ReadonlyArray<string>
  readonly isBundle: boolean
}

/** The entry points of all handlers in a pool. */
export interface HandlerEntryPoint {
  /** The file to run now. */
  readonly of: (file: string) => Effect.Effect<EntryPoint>
  /** Builds the bundle if there is no valid one. Logs when the file cannot be bundled; it then runs from its sources. */
  readonly prepare: (file: string) => Effect.Effect<void>
}

/** Without bundles: handlers run from their sources. `importers`: see `StintPackages`. */
export const withoutBundles = (importers: ReadonlyArray<string>): HandlerEntryPoint => ({
  of: (path) => Effect.sync(() => ({ path, nodeOptions: nodeOptionsFor(path, importers), isBundle: false })),
  prepare: () => Effect.void
})

/** esbuild's message when its own process was killed. */
const BUNDLER_GONE = /\bThe service (is no longer running|was stopped)\b/

/** With bundles in `directory`. `one` is held during each build. */
export const make = Effect.fnUntraced(function*(
  directory: string,
  options: HandlerBundle.BundleOptions = {},
  one: Semaphore.Semaphore = Semaphore.makeUnsafe(1)
): Effect.fn.Return<HandlerEntryPoint, never, Scope.Scope> {
  const builds = yield* FiberMap.make<string, void, never>()
  /** The last bundling error of each file. Each error is logged once; bundling is retried when the file changes. */
  const problems = new Map<string, string>()

  const prepare = (file: string) =>
    one.withPermits(1)(HandlerBundle.bundle(file, directory, options)).pipe(
      Effect.tap(() => Effect.sync(() => problems.delete(file))),
      Effect.asVoid,
      Effect.catch((error) => {
        // Ctrl-C in a terminal kills the bundler together with the platform; the file is not the cause.
        if (BUNDLER_GONE.test(error.problem)) return Effect.logDebug(`${error.message}.`)
        if (problems.get(file) === error.problem) return Effect.void
        problems.set(file, error.problem)
        return Effect.logWarning(`${error.message}. It runs from its sources and starts more slowly.`)
      })
    )

  return {
    prepare,
    of: Effect.fnUntraced(function*(file: string) {
      const bundle = yield* HandlerBundle.find(file, directory)
      if (bundle !== undefined) return { path: bundle, nodeOptions: HandlerBundle.BUNDLE_NODE_OPTIONS, isBundle: true }
      yield* FiberMap.run(builds, file, prepare(file), { onlyIfMissing: true })
      return { path: file, nodeOptions: nodeOptionsFor(file, options.importers ?? []), isBundle: false }
    })
  }
})

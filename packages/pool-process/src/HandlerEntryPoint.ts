/**
 * What Node is given to run for a handler file: its bundle when there is a good one, else the file itself.
 *
 * A start never waits for bundling, which takes longer than starting from the sources does: the bundle is made beside it, for the next one.
 * One at a time, so that bundling takes a core at most from what runs.
 */
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as HandlerBundle from "./HandlerBundle.ts"

/** The file to run, and the options of Node that it needs. */
export interface EntryPoint {
  readonly path: string
  readonly nodeOptions: ReadonlyArray<string>
}

/** The entries of all handlers of a pool. */
export interface HandlerEntryPoint {
  /** What to run now. */
  readonly of: (file: string) => Effect.Effect<EntryPoint>
  /** Makes the bundle, if there is no good one. Says in the log when the file cannot be bundled; it is run from its sources then. */
  readonly prepare: (file: string) => Effect.Effect<void>
}

/** Without bundles: files are run as they are. */
export const withoutBundles: HandlerEntryPoint = {
  of: (path) => Effect.succeed({ path, nodeOptions: [] }),
  prepare: () => Effect.void
}

/** What esbuild says when its own process was ended. */
const BUNDLER_GONE = /\bThe service (is no longer running|was stopped)\b/

/** With bundles, kept in `directory`. */
export const make = Effect.fnUntraced(function*(directory: string): Effect.fn.Return<HandlerEntryPoint, never, Scope.Scope> {
  const builds = yield* FiberMap.make<string, void, never>()
  const one = yield* Semaphore.make(1)
  /** By file: why it could not be bundled the last time. Said once, and tried again when it changes. */
  const problems = new Map<string, string>()

  const prepare = (file: string) =>
    one.withPermits(1)(HandlerBundle.bundle(file, directory)).pipe(
      Effect.tap(() => Effect.sync(() => problems.delete(file))),
      Effect.asVoid,
      Effect.catch((error) => {
        // Ctrl-C in a terminal ends the bundler with the platform. That is nothing about the file.
        if (BUNDLER_GONE.test(error.problem)) return Effect.logDebug(`${error.message}.`)
        if (problems.get(file) === error.problem) return Effect.void
        problems.set(file, error.problem)
        return Effect.logWarning(`${error.message}. It is run from its sources, which starts slower.`)
      })
    )

  return {
    prepare,
    of: Effect.fnUntraced(function*(file: string) {
      const bundle = yield* HandlerBundle.find(file, directory)
      // A bundle's stack traces name the sources only with this; it costs some 20 ms of a start.
      if (bundle !== undefined) return { path: bundle, nodeOptions: ["--enable-source-maps"] }
      yield* FiberMap.run(builds, file, prepare(file), { onlyIfMissing: true })
      return { path: file, nodeOptions: [] }
    })
  }
})

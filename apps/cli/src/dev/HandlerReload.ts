/**
 * Rebuilds the bundle of a handler whenever one of its sources changes.
 *
 * Only the inputs of the last bundle count, so a file that the handler writes or reads at run time changes nothing. While the sources have a mistake,
 * every module next to them counts as well, because a file whose import failed is not an input yet.
 */
import * as HandlerBundle from "@stint/pool-process/HandlerBundle"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { dirname, resolve } from "node:path"

/** Changes within this time of each other count as one change, because editors write a file in several steps. */
const DEBOUNCE = "100 millis"

/** How often a build is repeated because of changes during the build. Sources with a modification time in the future always look changed. */
const REBUILDS = 3

/** A module that a missing import may name. */
const MODULE = /\.[cm]?[jt]sx?$|\.json$/

/** The outcome of one build. */
export type Reload =
  /** `problem`: the handler cannot be bundled but may run from its sources. */
  | { readonly _tag: "Built"; readonly changed: ReadonlyArray<string>; readonly problem: string | undefined }
  | { readonly _tag: "Broken"; readonly changed: ReadonlyArray<string>; readonly mistakes: ReadonlyArray<string> }

/** Options of {@link run}. */
export interface Options {
  /** The handler file, absolute. */
  readonly file: string
  /** The pool's folder of bundles. */
  readonly directory: string
  readonly importers: ReadonlyArray<string>
  /** Called for the first build, and for each later one unless it repeats the mistakes of the previous build. */
  readonly onReload: (reload: Reload) => Effect.Effect<void>
}

/** Builds now and after every change, until interrupted. */
export const run = Effect.fnUntraced(function*({ directory, file, importers, onReload }: Options) {
  const fs = yield* FileSystem.FileSystem
  const changes = yield* Queue.unbounded<string>()
  const watchers = yield* FiberMap.make<string, void>()
  let sources: ReadonlySet<string> = new Set([file])
  /** The mistakes of the last build; undefined when it had none. */
  let mistakes: string | undefined

  const watchFolder = (folder: string) =>
    fs.watch(folder).pipe(
      Stream.runForEach((event) => {
        const changed = resolve(folder, event.path)
        return sources.has(changed) || (mistakes !== undefined && MODULE.test(changed))
          ? Queue.offer(changes, changed)
          : Effect.void
      }),
      Effect.catchCause((cause) =>
        Effect.logError(`Changes in ${folder} cannot be watched. Restart \`stint dev\` to reload your handler.`, cause)
      )
    )
  const watchSources = Effect.suspend(() =>
    Effect.forEach(
      new Set([...sources].map((source) => dirname(source))),
      (folder) => FiberMap.run(watchers, folder, watchFolder(folder), { onlyIfMissing: true }),
      { discard: true }
    )
  )
  const nextChanges = Effect.gen(function*() {
    const changed = new Set([yield* Queue.take(changes)])
    while (true) {
      const next = yield* Effect.timeoutOption(Queue.take(changes), DEBOUNCE)
      if (Option.isNone(next)) return [...changed]
      changed.add(next.value)
    }
  })

  /** Waits for changes that outdate the bundle. A change to a file's permissions, for example, does not. */
  const nextChangesOf = Effect.fnUntraced(function*(isBroken: boolean) {
    while (true) {
      const changed = yield* nextChanges
      if (isBroken || (yield* HandlerBundle.find(file, directory)) === undefined) return changed
    }
  })

  /** Builds again when a source changed during the build, because the bundle may then contain its old or its new version. */
  const build = Effect.gen(function*() {
    let built = yield* Effect.result(HandlerBundle.bundle(file, directory, { importers }))
    for (let tries = 0; tries < REBUILDS && Result.isSuccess(built); tries++) {
      if ((yield* HandlerBundle.find(file, directory)) !== undefined) break
      yield* Effect.sleep(DEBOUNCE)
      built = yield* Effect.result(HandlerBundle.bundle(file, directory, { importers }))
    }
    return built
  })

  let changed: ReadonlyArray<string> = []
  while (true) {
    yield* watchSources
    const built = yield* build
    const found = Result.isFailure(built) && built.failure.mistakes.length > 0 ? built.failure : undefined
    const before = mistakes
    mistakes = found?.mistakes.join("\n")
    // Sources that a failed build has not read may contain the correction.
    const known = found === undefined ? yield* HandlerBundle.sources(file, directory) : [...sources, ...found.files]
    sources = new Set([file, ...known ?? []])
    yield* watchSources
    if (found !== undefined) {
      if (mistakes !== before) yield* onReload({ _tag: "Broken", changed, mistakes: found.mistakes })
    } else {
      yield* onReload({ _tag: "Built", changed, problem: Result.isFailure(built) ? built.failure.message : undefined })
    }
    changed = yield* nextChangesOf(mistakes !== undefined)
  }
}, Effect.scoped)

/**
 * A volume, the disks of several workers, and their caches.
 */
import { LogMemory } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as fs from "node:fs"
import { join } from "node:path"
import type { Options } from "../src/CacheConfig.ts"
import { LocalFiles } from "../src/LocalFiles.ts"
import { VolumeCacheTest } from "../src/testing/index.ts"
import * as VolumeCache from "../src/VolumeCache.ts"
import * as VolumeFiles from "../src/VolumeFiles.ts"

type Overrides = Omit<Partial<Options>, "dirs"> & {
  readonly files?: VolumeFiles.VolumeFiles
  readonly local?: Partial<LocalFiles>
}

/**
 * A folder for one test, with a volume and the disks of named workers.
 */
export const make = Effect.gen(function*() {
  const folder = yield* VolumeCacheTest.folder
  const volume = join(folder, "volume")
  fs.mkdirSync(volume)
  const log = LogMemory.make()
  let workers = 0

  /** The directory of a worker. All workers name it `cache`, so they share one mirror. */
  const disk = (name: string) => join(folder, name, "cache")

  /** Starts a worker's cache; `close` ends the worker. */
  const start = Effect.fnUntraced(function*(name: string, { files, local, ...options }: Overrides = {}) {
    const scope = yield* Scope.make()
    fs.mkdirSync(join(folder, name), { recursive: true })
    const before = process.cwd()
    process.chdir(join(folder, name))
    const cache = yield* VolumeCache.scoped({ dirs: ["cache"], volume, endpoint: "endpoint", packBelow: 64, ...options }).pipe(
      Effect.provideService(Scope.Scope, scope),
      Effect.provideService(VolumeFiles.VolumeFiles, files ?? VolumeFiles.make()),
      Effect.provideService(LocalFiles, { ...fs, ...local }),
      Effect.provide(log.layer),
      // Workers are therefore started one after the other.
      Effect.ensuring(Effect.sync(() => process.chdir(before)))
    )
    return {
      ...cache,
      root: disk(name),
      sync: Effect.provide(cache.sync, log.layer),
      close: Effect.provide(Scope.close(scope, Exit.void), log.layer)
    }
  })

  /** The files of a new cold worker. */
  const cold = Effect.fnUntraced(function*(options: Overrides = {}) {
    const name = `cold-${workers++}`
    const cache = yield* start(name, options)
    return { root: cache.root, hydrated: cache.hydrated[0], cache }
  })

  /** The folder of the only mirror. */
  const mirror = () => {
    const endpoint = join(volume, "volume-cache", "endpoint")
    return join(endpoint, fs.readdirSync(endpoint)[0] ?? "")
  }

  return { folder, volume, disk, start, cold, mirror, log: log.lines }
})

/** Creates this test's kit. */
export type Kit = Effect.Success<typeof make>

/** Runs one step of a property with its own kit. */
export const run = <A, E>(use: (kit: Kit) => Effect.Effect<A, E, Scope.Scope>): Promise<A> =>
  Effect.runPromise(Effect.scoped(Effect.flatMap(make, use)))

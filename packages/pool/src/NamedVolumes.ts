/**
 * Named volumes: folders on the platform's machine that the operator has made available to workers, for example a mounted network file system.
 * An endpoint names a volume instead of a folder. Otherwise, every caller that may create endpoints could read any folder.
 */
import * as Effect from "effect/Effect"
import { realpath, stat } from "node:fs/promises"
import { PoolError, VolumeMissing } from "./PoolError.ts"

/** Folders by volume name. */
export type NamedVolumes = Readonly<Record<string, string>>

/** The error for a volume that cannot be used. `problem` has no full stop; `hint` is a sentence. */
export const volumeMissing = (volume: string, problem: string, hint: string): PoolError =>
  new PoolError({ reason: new VolumeMissing({ volume, problem, hint }) })

const problemOf = (cause: unknown): string =>
  cause instanceof Error && "code" in cause && cause.code === "ENOENT"
    ? "does not exist"
    : `cannot be used (${cause instanceof Error ? cause.message : String(cause)})`

/** The folder of a volume, without links. Fails when the platform has no such volume, or its folder does not exist. */
export const folderOf = Effect.fnUntraced(function*(volume: string, volumes: NamedVolumes) {
  const folder = Object.hasOwn(volumes, volume) ? volumes[volume] : undefined
  if (folder === undefined) {
    const names = Object.keys(volumes)
    return yield* volumeMissing(
      volume,
      names.length === 0
        ? "this platform has no volumes"
        : `this platform has only ${names.map((name) => `"${name}"`).join(", ")}`,
      "Add it to STINT_VOLUMES and restart the platform, or correct the endpoint's volumes."
    )
  }
  const hint = "Create or mount it, or correct STINT_VOLUMES and restart the platform."
  const path = yield* Effect.tryPromise({
    try: () => realpath(folder),
    catch: (cause) => volumeMissing(volume, `its folder ${folder} ${problemOf(cause)}`, hint)
  })
  const found = yield* Effect.tryPromise({
    try: () => stat(path),
    catch: (cause) => volumeMissing(volume, `its folder ${folder} ${problemOf(cause)}`, hint)
  })
  if (!found.isDirectory()) return yield* volumeMissing(volume, `${folder} is not a folder`, hint)
  return path
})

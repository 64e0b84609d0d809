/**
 * The working folders of `command` workers: each worker has its own, which is removed with it.
 *
 * Programs keep state in their working directory. RunPod's Python SDK 1.7 to 1.9 stores its jobs in `.runpod_jobs.pkl`: workers that share
 * the file block each other, and a file that a killed worker left behind stops every later worker. The folder contains a link to each entry of
 * the endpoint's folder, so that relative paths of the command and of the program still work, while new files are the worker's own.
 *
 * An endpoint whose workers must share a working directory sets `cwd`.
 */
import { PoolError, PoolUnavailable } from "@stint/pool/PoolError"
import * as Effect from "effect/Effect"
import { chmodSync, mkdirSync, readdirSync, statSync } from "node:fs"
import { chown, mkdir, readdir, rm, symlink } from "node:fs/promises"
import { join } from "node:path"
import type { WorkerUser } from "./WorkerUser.ts"

/** State files that must not be shared. */
const PRIVATE = new Set([".runpod_jobs.pkl"])

/** Folders without a worker's record are removed at the start, unless they are newer than this, because their worker may be starting. */
const LEFTOVER_MILLIS = 60_000

/** The working folders of one pool. */
export interface WorkFolders {
  /** Creates the folder of a worker that runs as `user`, with links to the entries of `directory`. Returns its path. */
  readonly create: (worker: string, directory: string, user: WorkerUser | undefined) => Effect.Effect<string, PoolError>
  /** Removes the folder of a worker that has exited. Does nothing when there is none. */
  readonly remove: (worker: string) => Effect.Effect<void>
}

/**
 * Opens the folders in `parent`. If workers run as other users than the platform's, those users must be able to reach it. `isRecorded` returns
 * whether the worker with this encoded name has a record; folders of other workers are leftovers.
 */
export const make = Effect.fnUntraced(function*(
  parent: string,
  hasOtherUsers: boolean,
  isRecorded: (name: string) => boolean
): Effect.fn.Return<WorkFolders> {
  const pathOf = (name: string) => join(parent, encodeURIComponent(name))
  const removeFolder = (path: string) => Effect.ignore(Effect.tryPromise(() => rm(path, { recursive: true, force: true })))

  const leftovers = yield* Effect.orElseSucceed(
    Effect.try(() => {
      const mode = hasOtherUsers ? 0o755 : 0o700
      mkdirSync(parent, { recursive: true, mode })
      chmodSync(parent, mode)
      return readdirSync(parent).map((name) => ({ name, path: join(parent, name) })).filter(({ name, path }) =>
        !isRecorded(name) && Date.now() - statSync(path).mtimeMs > LEFTOVER_MILLIS
      )
    }),
    () => []
  )
  yield* Effect.forEach(leftovers, ({ path }) => removeFolder(path), { discard: true })

  return {
    create: (worker, directory, user) =>
      Effect.tryPromise({
        try: async () => {
          const path = pathOf(worker)
          await mkdir(path, { recursive: true, mode: 0o700 })
          const entries = (await readdir(directory)).filter((name) => !PRIVATE.has(name))
          await Promise.all(entries.map((name) => symlink(join(directory, name), join(path, name))))
          if (user !== undefined) await chown(path, user.uid, user.gid)
          return path
        },
        catch: (cause) =>
          new PoolError({
            reason: new PoolUnavailable({
              problem: `the working folder ${pathOf(worker)} cannot be created (${
                cause instanceof Error ? cause.message : String(cause)
              })`,
              hint: "Make the folder writable and free space, or set the endpoint's cwd."
            })
          })
      }),
    remove: (worker) => removeFolder(pathOf(worker))
  }
})

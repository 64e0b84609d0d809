/**
 * Backups of the running platform, for `POST /api/v1/backup`.
 *
 * ```
 *   copy the database (writes continue) --> moment --> archive: keys, database, payloads --> delete the copy
 *   `---------------- no orphaned payload and no code of a release is removed ----------'
 * ```
 */
import { BackupError, Backups } from "@stint/server/Backups"
import { OnlineBackup } from "@stint/store-sqlite/OnlineBackup"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { randomUUID } from "node:crypto"
import { rmSync } from "node:fs"
import { readdir, rm } from "node:fs/promises"
import { join } from "node:path"
import process from "node:process"
import { DATABASE, settingsOf } from "./BackupFormat.ts"
import * as BackupWriter from "./BackupWriter.ts"

/** The prefix of the copies' names. A killed platform leaves a copy behind. */
const COPY = `${DATABASE}.backup-`

const failed = (cause: unknown) =>
  new BackupError({ reason: "failed", message: cause instanceof Error ? cause.message : String(cause) })

/** Options of the layer. */
export interface Options {
  readonly dataDir: string
  /** Held by the sweeps that remove orphaned payloads and the code of old releases. */
  readonly sweepLock: Semaphore.Semaphore
}

/** Provides `Backups`. Removes copies that a killed platform has left behind. */
export const layer = ({ dataDir, sweepLock }: Options): Layer.Layer<never, never, OnlineBackup> =>
  Layer.effect(
    Backups,
    Effect.gen(function*() {
      const { write } = yield* OnlineBackup
      yield* Effect.promise(async () => {
        const names = await readdir(dataDir).catch(() => [])
        for (const name of names) if (name.startsWith(COPY)) await rm(join(dataDir, name), { force: true })
      })
      const one = yield* Semaphore.make(1)

      const acquireOne = Effect.acquireRelease(
        Effect.filterOrFail(
          one.takeIfAvailable(1),
          (taken) => taken,
          () => new BackupError({ reason: "running", message: "Another backup of this platform is running." })
        ),
        () => one.release(1)
      )
      const open = Effect.gen(function*() {
        yield* acquireOne
        yield* Effect.acquireRelease(sweepLock.take(1), () => sweepLock.release(1))
        const path = yield* Effect.acquireRelease(
          Effect.sync(() => join(dataDir, `${COPY}${randomUUID()}`)),
          (path) => Effect.sync(() => rmSync(path, { force: true }))
        )
        const database = yield* Effect.mapError(write(path), failed)
        return Stream.fromAsyncIterable(
          BackupWriter.write({ dataDir, database, settings: settingsOf(process.env) }),
          failed
        )
      })
      return { open }
    })
  )

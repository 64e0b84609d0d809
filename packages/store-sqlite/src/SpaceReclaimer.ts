/**
 * Returns free space of the database file to the file system.
 *
 * SQLite reuses the pages of removed jobs, but never shrinks the file after a peak. Every `interval`, this layer returns free pages in
 * excess of a quarter of the file, in small steps so that other work can run in between. A quarter stays free because growing a file takes
 * time too.
 */
import type { StoreError } from "@stint/store/StoreError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

/** Settings of the layer. */
export interface Options {
  /** Default: one minute. A shorter interval shrinks the file sooner. Each check costs two PRAGMA reads. */
  readonly interval?: Duration.Input
}

/** Number of free pages that are never returned (4 MiB). */
const SPARE_PAGES = 1_024

/** Pages per step (2 MiB). A step takes a few milliseconds. */
const STEP_PAGES = 512

const decodeFreelist = Schema.decodeUnknownSync(Schema.Struct({ freelist_count: Schema.Int }))
const decodePages = Schema.decodeUnknownSync(Schema.Struct({ page_count: Schema.Int }))

/** Runs one step: returns up to {@link STEP_PAGES} to the file system. The result is true when more pages can be returned. */
export const reclaim: Effect.Effect<boolean, StoreError, SqliteDatabase> = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const surplus = db.read("reclaim space", () => {
    const free = decodeFreelist(db.statement("PRAGMA freelist_count").get()).freelist_count
    const pages = decodePages(db.statement("PRAGMA page_count").get()).page_count
    return free - Math.max(SPARE_PAGES, Math.floor(pages / 4))
  })
  if ((yield* surplus) <= 0) return false
  yield* db.write("reclaim space", () => db.statement(`PRAGMA incremental_vacuum(${STEP_PAGES})`).all())
  return (yield* surplus) > 0
})

/** Runs while the scope of the layer is open. Retries a failed step at the next interval. */
export const layer = (options: Options = {}): Layer.Layer<never, never, SqliteDatabase> =>
  Layer.effectDiscard(
    reclaim.pipe(
      Effect.catch((error) =>
        Effect.as(Effect.logWarning(`Free space stays in the database file for now: ${error.message}`), false)
      ),
      Effect.flatMap((more) => more ? Effect.yieldNow : Effect.sleep(options.interval ?? Duration.minutes(1))),
      Effect.forever,
      Effect.forkScoped
    )
  )

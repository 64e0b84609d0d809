/**
 * Hands space that jobs no longer need back to the file system.
 *
 * SQLite keeps the pages of removed jobs for new ones, so the file stops growing by itself; after a peak it would stay at its
 * largest. Every `interval` this duty gives back what is free beyond a quarter of the file, in small steps between which other work gets
 * its turn. The quarter stays because growing a file anew costs time too.
 */
import type { StoreError } from "@stint/store/StoreError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

/** When to look. */
export interface Options {
  /** Default: one minute. Shorter follows a falling need sooner and costs two look-ups each time. */
  readonly interval?: Duration.Input
}

/** Below so many free pages (4 MiB) nothing is given back. */
const SPARE_PAGES = 1_024

/** Pages a step (2 MiB): a few milliseconds. */
const STEP_PAGES = 512

const decodeFreelist = Schema.decodeUnknownSync(Schema.Struct({ freelist_count: Schema.Int }))
const decodePages = Schema.decodeUnknownSync(Schema.Struct({ page_count: Schema.Int }))

/** Gives back one step's worth. True when there is more to give back. */
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

/** The duty as a layer: it runs while the layer's scope is open. A step that fails is tried again with the next look. */
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

/**
 * Checks the structure of the database file with `PRAGMA quick_check`, which finds damaged pages and indexes that do not match their table's
 * order. It reads the whole file: about 1 GB per second from memory, and as fast as the disk otherwise.
 *
 * - {@link checkNow} runs on the connection itself, before the start, for files up to {@link MAX_START_BYTES}.
 * - {@link inThread} runs in a thread, so that it does not block requests. It reads the file without locks and without its WAL. That is a
 *   consistent state as long as no checkpoint writes the file meanwhile, because a checkpoint copies the whole WAL. The caller must therefore
 *   repeat a failed check when the file has been written since.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { DatabaseSync } from "node:sqlite"
import { pathToFileURL } from "node:url"
import { Worker } from "node:worker_threads"

/** Larger files are checked after the start. Checking this size takes 0.2 s from memory and about a second from a slow disk. */
export const MAX_START_BYTES = 256 * 1024 * 1024

/** The number of problems to report: the first is enough to reject writes. */
const LIMIT = 3

const Rows = Schema.Array(Schema.Struct({ quick_check: Schema.String }))
const decodeRows = Schema.decodeUnknownSync(Rows)

const problemsOf = (rows: unknown): string | undefined => {
  const problems = decodeRows(rows).map((row) => row.quick_check).filter((text) => text !== "ok")
  return problems.length === 0 ? undefined : problems.join("; ")
}

/** The problems of an open database; undefined when there are none. Blocks the process. May throw for a badly damaged file. */
export const checkNow = (db: DatabaseSync): string | undefined => problemsOf(db.prepare(`PRAGMA quick_check(${LIMIT})`).all())

/** The code of the thread. `immutable` opens the file without locks: the platform holds an exclusive lock. */
const THREAD = `
const { parentPort, workerData } = require("node:worker_threads")
const { DatabaseSync } = require("node:sqlite")
let rows
try {
  const db = new DatabaseSync(new URL(workerData.url), { readOnly: true })
  rows = db.prepare("PRAGMA quick_check(${LIMIT})").all().map((row) => ({ ...row }))
  db.close()
} catch (error) {
  rows = [{ quick_check: String(error.message) }]
}
parentPort.postMessage(rows)
`

/** Checks a file in a thread. Undefined when it has no problems. Dies when the thread fails. */
export const inThread = (file: string): Effect.Effect<string | undefined> =>
  Effect.callback<string | undefined>((resume) => {
    const url = `${pathToFileURL(file).href}?immutable=1`
    const thread = new Worker(THREAD, {
      eval: true,
      // Node 22 and 24 would warn in each thread that `node:sqlite` is experimental.
      execArgv: ["--disable-warning=ExperimentalWarning"],
      name: "integrity-check",
      workerData: { url }
    })
    thread.unref()
    thread.once(
      "message",
      (rows: unknown) => resume(Effect.sync(() => problemsOf(rows)))
    )
    thread.once("error", (cause) => resume(Effect.die(cause)))
    return Effect.promise(() => thread.terminate())
  })

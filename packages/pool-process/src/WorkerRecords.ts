/**
 * Which workers run, on disk: one file a worker, for the platform that comes after one that was killed (see `OrphanSweep`).
 *
 * Written in the same breath as the process is started, and synchronously for that reason: a platform that is killed between the two would
 * leave a worker that nobody knows of.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { ProcessIdentity } from "./ProcessTable.ts"

const Identity = Schema.NullOr(Schema.Struct({ pid: Schema.Int, start: Schema.String }))

const Record = Schema.fromJsonString(Schema.Struct({
  worker: Schema.String,
  endpoint: Schema.String,
  pid: Schema.Int,
  identity: Identity,
  platform: Identity
}))

/** A worker that was started. */
export interface WorkerRecord {
  readonly worker: string
  readonly endpoint: string
  readonly pid: number
  /** Null where the system does not tell processes of one pid apart. */
  readonly identity: ProcessIdentity | null
  /** The platform that started it. */
  readonly platform: ProcessIdentity | null
}

export interface WorkerRecords {
  /** Throws when the file cannot be written. */
  readonly write: (record: WorkerRecord) => void
  /** Throws when the file cannot be removed; one that is not there is no error. */
  readonly remove: (worker: string) => void
  /** All that can be read. What cannot is no record: it was being written when the platform was killed, or is somebody else's file. */
  readonly list: () => ReadonlyArray<WorkerRecord>
}

const SUFFIX = ".json"

const decode = Schema.decodeUnknownOption(Record)
const encode = Schema.encodeSync(Record)

const read = (file: string): Option.Option<WorkerRecord> => {
  try {
    return decode(readFileSync(file, "utf8"))
  } catch {
    return Option.none()
  }
}

/** The folder of the records cannot be made. */
export class RecordsUnusable extends Schema.TaggedError<RecordsUnusable>()("RecordsUnusable", {
  message: Schema.String
}) {}

/** Opens the records below `dataDir`. */
export const make = (dataDir: string): Effect.Effect<WorkerRecords, RecordsUnusable> =>
  Effect.try({
    try: () => {
      const folder = join(dataDir, "workers")
      mkdirSync(folder, { recursive: true })
      const fileOf = (worker: string) => join(folder, encodeURIComponent(worker) + SUFFIX)
      return {
        write: (record: WorkerRecord) => {
          const file = fileOf(record.worker)
          // Never half a record under its own name.
          writeFileSync(`${file}.new`, encode(record))
          renameSync(`${file}.new`, file)
        },
        remove: (worker: string) => rmSync(fileOf(worker), { force: true }),
        list: () =>
          readdirSync(folder).filter((name) => name.endsWith(SUFFIX)).flatMap((name) => Option.toArray(read(join(folder, name))))
      }
    },
    catch: (cause) => new RecordsUnusable({ message: cause instanceof Error ? cause.message : String(cause) })
  })

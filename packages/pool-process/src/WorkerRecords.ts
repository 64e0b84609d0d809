/**
 * Records of running workers on disk, one file per worker, so that a new platform finds the workers that a killed platform left behind (see
 * `Orphans`).
 *
 * A record is written synchronously, right after the process starts: a platform that is killed between the two steps would leave an
 * unrecorded worker.
 */
import * as RecordedReservation from "@stint/pool/RecordedReservation"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { ProcessIdentity } from "./ProcessTable.ts"

const Identity = Schema.NullOr(Schema.Struct({ pid: Schema.Int, start: Schema.String }))

const Record = Schema.fromJsonString(Schema.Struct({
  worker: Schema.String,
  endpoint: Schema.String,
  pid: Schema.Int,
  identity: Identity,
  platform: Identity,
  mark: Schema.optionalKey(Schema.String),
  ...RecordedReservation.fields
}))

/** A started worker. */
export interface WorkerRecord extends RecordedReservation.RecordedReservation {
  readonly worker: string
  readonly endpoint: string
  readonly pid: number
  /** Null when the system cannot distinguish processes with the same pid. */
  readonly identity: ProcessIdentity | null
  /** The platform that started it. */
  readonly platform: ProcessIdentity | null
  /** The name of the standby that became the worker (see `StandbyWorkers`). Absent for a worker that did not start as a standby. */
  readonly mark?: string
}

export interface WorkerRecords {
  readonly folder: string
  /** Throws when the file cannot be written. */
  readonly write: (record: WorkerRecord) => void
  /** Throws when the file cannot be removed; a missing file is not an error. */
  readonly remove: (worker: string) => void
  /** Whether there is a record with this encoded worker name. */
  readonly isRecorded: (name: string) => boolean
  /** All readable records. A file is unreadable when the platform was killed while writing it, or when it is not a record. */
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

/** The folder of the records cannot be created. */
export class RecordsUnusable extends Schema.TaggedError<RecordsUnusable>()("RecordsUnusable", {
  message: Schema.String
}) {}

/** Opens the records in `dataDir`. */
export const make = (dataDir: string): Effect.Effect<WorkerRecords, RecordsUnusable> =>
  Effect.try({
    try: () => {
      const folder = join(dataDir, "workers")
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      const fileOf = (worker: string) => join(folder, encodeURIComponent(worker) + SUFFIX)
      return {
        folder,
        isRecorded: (name: string) => existsSync(join(folder, name + SUFFIX)),
        write: (record: WorkerRecord) => {
          const file = fileOf(record.worker)
          // Write and then rename, so that a partial record never has the final name.
          writeFileSync(`${file}.new`, encode(record), { mode: 0o600 })
          renameSync(`${file}.new`, file)
        },
        remove: (worker: string) => rmSync(fileOf(worker), { force: true }),
        list: () =>
          readdirSync(folder).filter((name) => name.endsWith(SUFFIX)).flatMap((name) => Option.toArray(read(join(folder, name))))
      }
    },
    catch: (cause) => new RecordsUnusable({ message: cause instanceof Error ? cause.message : String(cause) })
  })

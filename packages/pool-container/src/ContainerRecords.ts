/**
 * Records of containers on disk, one per worker, so that a new platform finds the containers that a killed platform left behind, even while
 * the engine does not answer.
 *
 * ```
 *   dataDir/containers/w-1.json       written before the container is created, removed after its removal
 *                      w-1.position   how much of its output was forwarded
 * ```
 */
import * as RecordedReservation from "@stint/pool/RecordedReservation"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { join } from "node:path"
import type { OutputPosition } from "./ContainerOutput.ts"

const Record = Schema.Struct({
  worker: Schema.String,
  endpoint: Schema.String,
  /** The socket of its engine. */
  socket: Schema.String,
  /** The port at which the worker calls the platform in its own network; null in the host's network. */
  port: Schema.NullOr(Schema.Int),
  ...RecordedReservation.fields
})
/** A created container. Its name is derived from the worker's id. */
export type ContainerRecord = typeof Record.Type

const RecordText = Schema.fromJsonString(Record)
const decode = Schema.decodeUnknownOption(RecordText)
const encode = Schema.encodeSync(RecordText)

const SUFFIX = ".json"

/** The folder of the records in a data folder. */
export const folderIn = (dataDir: string): string => join(dataDir, "containers")

/** An open file with a position. */
export interface PositionFile {
  readonly position: OutputPosition
  readonly write: (position: OutputPosition) => void
  readonly close: () => void
}

/** The fixed width of a position in the file, in characters, so that each write replaces the previous one completely. */
const WIDTH = 16

export interface ContainerRecords {
  /** Throws when the file cannot be written. */
  readonly write: (record: ContainerRecord) => void
  readonly remove: (worker: string) => void
  /** All readable records. */
  readonly list: () => ReadonlyArray<ContainerRecord>
  /** Opens the file of the output's position, at 0 if there is none. Throws when the file cannot be opened. */
  readonly openPosition: (worker: string) => PositionFile
}

/** The records in `dataDir`. The folder is created by the first write. */
export const make = (dataDir: string): ContainerRecords => {
  const folder = folderIn(dataDir)
  const fileOf = (worker: string, suffix: string) => join(folder, encodeURIComponent(worker) + suffix)
  const read = (name: string) => {
    try {
      return Option.toArray(decode(readFileSync(join(folder, name), "utf8")))
    } catch {
      return []
    }
  }
  return {
    write: (record) => {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      const file = fileOf(record.worker, SUFFIX)
      // Write and then rename, so that a partial record never has the final name.
      writeFileSync(`${file}.new`, encode(record), { mode: 0o600 })
      renameSync(`${file}.new`, file)
    },
    remove: (worker) => {
      rmSync(fileOf(worker, SUFFIX), { force: true })
      rmSync(fileOf(worker, ".position"), { force: true })
    },
    list: () => existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(SUFFIX)).flatMap(read) : [],
    openPosition: (worker) => {
      const file = fileOf(worker, ".position")
      const [stdout = 0, stderr = 0] = existsSync(file) ? readFileSync(file, "utf8").trim().split(/ +/).map(Number) : []
      const opened = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600)
      return {
        position: { stdout: Number.isSafeInteger(stdout) ? stdout : 0, stderr: Number.isSafeInteger(stderr) ? stderr : 0 },
        write: ({ stderr, stdout }) => {
          writeSync(opened, `${String(stdout).padStart(WIDTH)} ${String(stderr).padStart(WIDTH)}`, 0)
        },
        close: () => closeSync(opened)
      }
    }
  }
}

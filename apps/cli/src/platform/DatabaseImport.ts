/**
 * Copies a platform from its data folder into a PostgreSQL database, compares the two, and says what to do next
 * (docs/operations/move-to-postgresql.md).
 */
import type { PostgresOpenError } from "@stint/store-postgres"
import type { SqliteOpenError } from "@stint/store-sqlite/SqliteOpenError"
import * as TransferRows from "@stint/store-sqlite/TransferRows"
import * as Transfer from "@stint/store/Transfer"
import type { TransferError } from "@stint/store/TransferError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { DATABASE, folderOf, MANIFEST } from "../backup/BackupFormat.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import * as DatabaseStores from "./DatabaseStores.ts"
import * as PayloadStores from "./PayloadStores.ts"

/** A finished import. */
export interface Imported {
  readonly file: string
  readonly database: string
  /** Whether the source was a backup of a platform that may have continued to run. */
  readonly backup: boolean
  readonly seconds: number
  /** The record of a folder for large payloads that has none. A node would not start with it. */
  readonly unusedRecord: string | null
  readonly tables: ReadonlyArray<Transfer.TransferredTable>
}

const AGAIN = "Run the same command again: it continues where it stopped. The source is unchanged."

const sourceFailure = ({ message, reason }: SqliteOpenError): CliFailure =>
  new CliFailure({
    message,
    hint: reason._tag === "FileLocked"
      ? "Stop the platform with SIGTERM, then import. To copy most of its data while it runs, import a backup first."
      : "Nothing was changed."
  })

const targetFailure = ({ message }: PostgresOpenError.PostgresOpenError): CliFailure =>
  new CliFailure({ message, hint: "The source is unchanged. Check the database: stint doctor" })

const transferFailure = ({ message, reason }: TransferError): CliFailure => {
  switch (reason._tag) {
    case "SourceOlder":
      return new CliFailure({
        message,
        hint: "Start the platform once with this version, without a database, and stop it again: that updates its tables."
      })
    case "RowUnreadable":
      return new CliFailure({
        message,
        hint:
          "The platform cannot read this row either. Correct or delete it with sqlite3 while the platform is stopped, and run the " +
          "same command again."
      })
    case "RowRefused":
      return new CliFailure({
        message,
        hint: "Correct or delete this row with sqlite3 in the stopped platform, and run the same command again."
      })
    case "TargetFailed":
      return new CliFailure({ message, hint: AGAIN })
    case "RowsDiffer":
      return new CliFailure({
        message,
        hint:
          `No node starts with this database. ${AGAIN} If the difference remains, it is a bug in Stint: continue with the source.`,
        code: "import-differs"
      })
  }
}

/** The settings that all nodes share. Refuses a platform with large payloads in a folder, which other nodes could not read. */
const settingsOf = Effect.fnUntraced(function*(folder: string, source: TransferRows.TransferRows) {
  const file = join(folder, "payloads.json")
  const record = Option.getOrUndefined(yield* PayloadStores.read(file))
  if (record === undefined) return { settings: {}, unusedRecord: null }
  if (folderOf(record.location) === undefined) {
    return { settings: { [PayloadStores.SETTING]: JSON.stringify(record) }, unusedRecord: null }
  }
  if (!source.hasReferences()) return { settings: {}, unusedRecord: file }
  return yield* new CliFailure({
    message: `Large payloads of this platform are in ${record.location}, which other nodes of a database cannot read.`,
    hint:
      `Copy everything below ${record.owner} in this folder to a bucket, write the new location (s3://BUCKET/PREFIX) into ${file}, and ` +
      "run the same command again. Nodes then need STINT_PAYLOADS with this location."
  })
})

const number = (count: number): string => count.toLocaleString("en-US")

/** Tables with fewer rows are copied within a second. */
const SMALL = 1_000

/** Changes rarely, because each change may be a line in a log: one text for all small tables, and steps of ten percent for the others. */
const stateText = ({ rows, step, table, total }: Transfer.TransferState): string =>
  total <= SMALL
    ? "Copying and comparing tables"
    : `${step === "copy" ? "Copying" : "Comparing"} ${table}: ${Math.floor((rows / total) * 10) * 10} % of ${number(total)} rows`

/** Runs the import. `folder`: a data folder, or an extracted backup. */
export const run = Effect.fn("DatabaseImport.run")(function*(
  folder: string,
  url: Redacted.Redacted
): Effect.fn.Return<Imported, CliFailure> {
  const file = join(folder, DATABASE)
  if (!existsSync(file)) {
    return yield* new CliFailure({
      message: `There is no platform to import in ${folder}: it has no file ${DATABASE}.`,
      hint: "Name its data folder with --from. For a backup, extract the archive first: tar -xf stint.tar -C FOLDER"
    })
  }
  const backup = existsSync(join(folder, MANIFEST))
  const begun = yield* Clock.currentTimeMillis
  const { Import } = yield* DatabaseStores.load
  const progress = Output.makeProgress()
  return yield* Effect.scoped(Effect.gen(function*() {
    yield* Output.message(`Reading ${file}. The import does not change it, and no platform can start with it meanwhile.`)
    const source = yield* Effect.mapError(
      TransferRows.open(file),
      (error) => error._tag === "TransferError" ? transferFailure(error) : sourceFailure(error)
    )
    const { settings, unusedRecord } = yield* settingsOf(folder, source)
    const target = yield* Effect.mapError(Import.open({ url }, source.origin), targetFailure)
    yield* Output.message(`Writing to ${target.database}. No node can start with it until the import has finished.`)
    const tables = yield* Transfer.copy(
      source,
      target,
      (state) => Effect.flatMap(Clock.currentTimeMillis, (now) => progress.show(stateText(state), now - begun))
    ).pipe(
      Effect.mapError(transferFailure),
      Effect.ensuring(progress.clear)
    )
    yield* Output.message("Counting the jobs for quotas and health.")
    yield* Effect.mapError(target.finish({ isBackup: backup, settings }), targetFailure)
    const seconds = Math.round(((yield* Clock.currentTimeMillis) - begun) / 1_000)
    return { file, database: target.database, backup, seconds, unusedRecord, tables }
  }))
})

/** The result, with what to do next. */
export const format = ({ backup, database, file, seconds, tables, unusedRecord }: Imported): string => {
  const [filled, empty] = [tables.filter(({ rows }) => rows > 0), tables.filter(({ rows }) => rows === 0)]
  const orphans = tables.filter(({ orphans }) => orphans > 0)
  return [
    `The tables of ${Output.inline(file)} are in ${
      Output.inline(database)
    }. Both were read again, and their counts and checksums are the same. It took ${seconds} s.`,
    "",
    Output.table([
      ["table", "rows", "written now", "SHA-256 of both"],
      ...filled.map(({ changed, digest, rows, table }) => [table, number(rows), number(changed), digest.slice(0, 16)])
    ]),
    `${empty.length} other tables are empty on both sides.`,
    ...orphans.map(({ orphans, table }) => `${number(orphans)} rows of ${table} belong to no job, and were not copied.`),
    "",
    ...(backup
      ? [
        "This was a backup, so what happened since is missing, and no node starts with this database yet.",
        "Next: stop the platform, and import its data folder into the same database. Only what has changed is written."
      ]
      : [
        "Next:",
        ...[
          ...(unusedRecord === null ? [] : [
            `Delete ${
              Output.inline(unusedRecord)
            } and unset STINT_PAYLOADS: no large payload is in its folder, and a node would not start with it`
          ]),
          "Start the platform with the database: set STINT_DATABASE, keep STINT_DATA_DIR and the other settings, and run stint serve",
          `Make sure that the old platform is not started again, because it would run the same jobs: mv ${Output.inline(file)} ${
            Output.inline(file)
          }.imported`
        ].map((step, index) => `${index + 1}. ${step}`)
      ])
  ].join("\n")
}

/**
 * Why a database file cannot be used, as one error with a reason. Each message says what to do next.
 */
import * as Schema from "effect/Schema"

/** Another process has the file. `holder` says which, where that is known. */
export class FileLocked extends Schema.TaggedError<FileLocked>()("FileLocked", {
  holder: Schema.NullOr(Schema.String)
}) {}

/** The file was written by a newer Stint. Versions are those of the tables, not of the program. */
export class FileNewer extends Schema.TaggedError<FileNewer>()("FileNewer", {
  version: Schema.Int,
  supported: Schema.Int
}) {}

/** The file is there and is something else. */
export class NotStintDatabase extends Schema.TaggedError<NotStintDatabase>()("NotStintDatabase", {}) {}

/** The file cannot be created, opened or read: rights, a full disk, damage. */
export class FileUnusable extends Schema.TaggedError<FileUnusable>()("FileUnusable", {
  cause: Schema.Defect()
}) {}

/** The database could not be opened. Nothing in it was changed. */
export class SqliteOpenError extends Schema.TaggedError<SqliteOpenError>()("SqliteOpenError", {
  file: Schema.String,
  reason: Schema.Union([FileLocked, FileNewer, NotStintDatabase, FileUnusable])
}) {
  override get message(): string {
    const { file, reason } = this
    switch (reason._tag) {
      case "FileLocked":
        return `${file} is in use by ${
          reason.holder ?? "another process"
        }. One platform at a time can use a database file: stop the ` +
          "other one, or give this one a data directory of its own."
      case "FileNewer":
        return `${file} was written by a newer Stint (its tables have version ${reason.version}, this one knows ${reason.supported}). ` +
          "Start that version, or give this one a data directory of its own."
      case "NotStintDatabase":
        return `${file} is not a database of Stint. Move it away, or give Stint a data directory of its own.`
      case "FileUnusable":
        return `${file} cannot be used: ${reason.cause instanceof Error ? reason.cause.message : String(reason.cause)}. ` +
          "Check that its directory exists, may be written to and has free space."
    }
  }
}

/**
 * The errors of opening a database file. Each message says how to fix the problem.
 */
import * as Schema from "effect/Schema"

/** Another process has the file open. `holder`: its description, if known. */
export class FileLocked extends Schema.TaggedError<FileLocked>()("FileLocked", {
  holder: Schema.NullOr(Schema.String)
}) {}

/** A newer version of Stint wrote the file. The version numbers are table versions. */
export class FileNewer extends Schema.TaggedError<FileNewer>()("FileNewer", {
  version: Schema.Int,
  supported: Schema.Int
}) {}

/** The file is not a Stint database. */
export class NotStintDatabase extends Schema.TaggedError<NotStintDatabase>()("NotStintDatabase", {}) {}

/** The file cannot be created, opened or read, because of its permissions, a full disk or damage. */
export class FileUnusable extends Schema.TaggedError<FileUnusable>()("FileUnusable", {
  cause: Schema.Defect()
}) {}

/** Other users can access the file, and this process may not change that. `owner`: the user id of the file's owner. */
export class FileExposed extends Schema.TaggedError<FileExposed>()("FileExposed", {
  mode: Schema.Int,
  owner: Schema.Int
}) {}

/** The database could not be opened. The file is unchanged. */
export class SqliteOpenError extends Schema.TaggedError<SqliteOpenError>()("SqliteOpenError", {
  file: Schema.String,
  reason: Schema.Union([FileLocked, FileNewer, NotStintDatabase, FileUnusable, FileExposed])
}) {
  override get message(): string {
    const { file, reason } = this
    switch (reason._tag) {
      case "FileLocked":
        return `${file} is in use by ${
          reason.holder ?? "another process"
        }. One platform at a time can use a database file: stop the ` +
          "other one, or use a separate data directory for this one."
      case "FileNewer":
        return `${file} was written by a newer Stint (its tables have version ${reason.version}, this one knows ${reason.supported}). ` +
          "Start that version, or use a separate data directory for this one."
      case "NotStintDatabase":
        return `${file} is not a database of Stint. Move it away, or give Stint a data directory of its own.`
      case "FileExposed":
        return `Other users can access ${file} (mode ${
          reason.mode.toString(8)
        }), which contains inputs, results and secrets, and this ` +
          `process may not change that: the file belongs to user ${reason.owner}. Run \`chmod 600 ${file}\` as that user, or as root, or ` +
          "use a data directory on a file system with permissions."
      case "FileUnusable":
        return `${file} cannot be used: ${reason.cause instanceof Error ? reason.cause.message : String(reason.cause)}. ` +
          "Check that its directory exists, is writable and has free space."
    }
  }
}

/**
 * The errors of opening a database file. Each message says how to fix the problem.
 */
import * as Schema from "effect/Schema"

/** Another process has the file open. `holder`: its description, if known. */
export class FileLocked extends Schema.TaggedError<FileLocked>()("FileLocked", {
  holder: Schema.NullOr(Schema.String)
}) {}

/** A newer version of Stint wrote the file. */
export class FileNewer extends Schema.TaggedError<FileNewer>()("FileNewer", {
  /** The table version of the file, and the latest one that this program knows. */
  version: Schema.Int,
  supported: Schema.Int,
  /** The version of Stint that wrote the file, if the file contains it. */
  stint: Schema.NullOr(Schema.String),
  /** The newest copy from before a migration that this program can open, if there is one. */
  copy: Schema.NullOr(Schema.String)
}) {}

/** The file is not a Stint database. */
export class NotStintDatabase extends Schema.TaggedError<NotStintDatabase>()("NotStintDatabase", {}) {}

/** The file is missing or empty, but `evidence` shows that a database was here before. */
export class DatabaseLost extends Schema.TaggedError<DatabaseLost>()("DatabaseLost", {
  state: Schema.Literals(["missing", "empty"]),
  evidence: Schema.String,
  /** `evidence` is a complete copy, which the platform wrote when the file was deleted or replaced. */
  rescued: Schema.Boolean
}) {}

/** The file is damaged. `problems`: SQLite's findings. */
export class FileDamaged extends Schema.TaggedError<FileDamaged>()("FileDamaged", {
  problems: Schema.String
}) {}

/** The disk is full, and opening the file requires space. */
export class DiskFull extends Schema.TaggedError<DiskFull>()("DiskFull", {}) {}

/** The file cannot be created, opened or read, because of its permissions or a disk error. */
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
  reason: Schema.Union([FileLocked, FileNewer, NotStintDatabase, DatabaseLost, FileDamaged, DiskFull, FileUnusable, FileExposed])
}) {
  override get message(): string {
    const { file, reason } = this
    switch (reason._tag) {
      case "FileLocked":
        return `${file} is in use by ${
          reason.holder ?? "another process"
        }. One platform at a time can use a database file: stop the ` +
          "other one, or use a separate data directory for this one."
      case "FileNewer": {
        const version = reason.stint === null ? "that version" : `Stint ${reason.stint} or newer`
        return `${file} was written by a newer Stint (its tables have version ${reason.version}, this one knows ${reason.supported}). ` +
          `Start ${version} to keep all jobs. ${
            reason.copy === null
              ? "To go back to this version, restore a backup that it made: there is no copy from before the upgrade."
              : `To go back to this version without the jobs since the upgrade, use the copy from before the upgrade: mv ${file} ${file}.newer && ` +
                `rm -f ${file}-wal && cp ${reason.copy} ${file}`
          }`
      }
      case "NotStintDatabase":
        return `${file} is not a Stint database. Move it away, or give Stint a data directory of its own.`
      case "FileExposed":
        return `Other users can access ${file} (mode ${
          reason.mode.toString(8)
        }), which contains inputs, results and secrets, and this ` +
          `process may not change that: the file belongs to user ${reason.owner}. Run \`chmod 600 ${file}\` as that user, or as root, or ` +
          "use a data directory on a file system with permissions."
      case "DatabaseLost":
        if (reason.rescued) {
          return `${file} is ${reason.state}. The platform saved its content in ${reason.evidence} when the file was deleted or replaced. ` +
            `To continue with that content: mv ${reason.evidence} ${file}`
        }
        return `${file} is ${reason.state}, but ${reason.evidence} shows that a database was here. Restore ${file} from a backup, together ` +
          `with its -wal file if the backup has one. To start with an empty database instead, move ${reason.evidence} away.`
      case "FileDamaged":
        return `${file} is damaged: ${reason.problems}. Keep a copy of the folder. Then restore a backup, or recover the file: ` +
          `sqlite3 ${file} .recover | sqlite3 recovered.db, and replace ${file} by recovered.db.`
      case "DiskFull":
        return `The disk of ${file} is full, and opening the file requires some space. Free some space on the disk and start again.`
      case "FileUnusable":
        return `${file} cannot be used: ${reason.cause instanceof Error ? reason.cause.message : String(reason.cause)}. ` +
          "Check that its directory exists and is writable, and check the system log for errors of the disk."
    }
  }
}

/** Why a database cannot be used. */
import * as Schema from "effect/Schema"
import { ADVICE as POOLER_ADVICE } from "./Pooler.ts"

/** No connection: wrong address or password, or the server is down. */
export class ConnectFailed extends Schema.TaggedError<ConnectFailed>()("ConnectFailed", { problem: Schema.String }) {}

/** The server is too old. */
export class ServerTooOld extends Schema.TaggedError<ServerTooOld>()("ServerTooOld", { version: Schema.String }) {}

/** A newer version of Stint has changed the tables. */
export class TablesNewer extends Schema.TaggedError<TablesNewer>()("TablesNewer", {
  version: Schema.Int,
  supported: Schema.Int
}) {}

/** The migration could not lock its tables, because other transactions used them. `holders`: the sessions, as text; empty if they have ended. */
export class TablesInUse extends Schema.TaggedError<TablesInUse>()("TablesInUse", {
  seconds: Schema.Number,
  holders: Schema.String
}) {}

/** A statement of the start failed. */
export class StartFailed extends Schema.TaggedError<StartFailed>()("StartFailed", { problem: Schema.String }) {}

/** A pooler gives each transaction a different server connection. */
export class TransactionPooler extends Schema.TaggedError<TransactionPooler>()("TransactionPooler", {}) {}

/** A copy from another store has not finished. `backup`: it was a copy of a backup, and a copy of the platform itself must follow. */
export class ImportUnfinished extends Schema.TaggedError<ImportUnfinished>()("ImportUnfinished", {
  state: Schema.Literals(["unfinished", "backup"])
}) {}

/** The database cannot be the target of a copy. */
export class ImportRefused extends Schema.TaggedError<ImportRefused>()("ImportRefused", {
  problem: Schema.String,
  advice: Schema.String
}) {}

/** The oldest supported major version. */
export const OLDEST_SERVER = 14

/** The database cannot be used. The message never contains a password. */
export class PostgresOpenError extends Schema.TaggedError<PostgresOpenError>()("PostgresOpenError", {
  /** The address without user and password. */
  database: Schema.String,
  reason: Schema.Union([
    ConnectFailed,
    ServerTooOld,
    TablesNewer,
    TablesInUse,
    StartFailed,
    TransactionPooler,
    ImportUnfinished,
    ImportRefused
  ])
}) {
  override get message(): string {
    const { database, reason } = this
    switch (reason._tag) {
      case "ConnectFailed":
        return `No connection to PostgreSQL at ${database}: ${reason.problem}. Check that the server runs and accepts connections from this machine, and ` +
          "check the user, the password and the name of the database in the address."
      case "ServerTooOld":
        return `PostgreSQL at ${database} is version ${reason.version}. Stint needs PostgreSQL ${OLDEST_SERVER} or newer.`
      case "TablesNewer":
        return `The tables at ${database} have version ${reason.version}; this version of Stint supports versions up to ${reason.supported}. ` +
          "Start the version of Stint that the other nodes run."
      case "TablesInUse":
        return `The tables at ${database} must be upgraded, but other transactions used them for ${reason.seconds} s. Nothing was changed. ` +
          (reason.holders === "" ? "" : `Tables are locked by ${reason.holders}. `) +
          "End long transactions, such as a backup or an open psql session, and start again."
      case "TransactionPooler":
        return `${database} is the address of a pooler in transaction mode, such as PgBouncer. ${POOLER_ADVICE}`
      case "ImportUnfinished":
        return reason.state === "backup"
          ? `${database} contains an import of a backup, so the jobs since the backup are missing. Stop the platform and import its data folder: ` +
            "stint database import"
          : `An import into ${database} has not finished. Run it again; it continues where it stopped: stint database import`
      case "ImportRefused":
        return `Nothing can be imported into ${database}: ${reason.problem}. ${reason.advice}`
      case "StartFailed":
        return `PostgreSQL at ${database} cannot be used: ${reason.problem}. The user of the address must own the database, or have the right to ` +
          "create the schema `stint` in it."
    }
  }
}

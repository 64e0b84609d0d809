/**
 * `stint database import` copies a platform into PostgreSQL (docs/operations/move-to-postgresql.md). `stint database migrate` brings the tables in
 * PostgreSQL to the version of this program, without starting a node (docs/operations/many-nodes.md).
 */
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { resolve } from "node:path"
import { CliFailure } from "../CliFailure.ts"
import * as DatabaseConfig from "../config/DatabaseConfig.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"
import * as Output from "../output/Output.ts"
import * as DatabaseImport from "../platform/DatabaseImport.ts"
import * as DatabaseStores from "../platform/DatabaseStores.ts"
import { json } from "./SharedFlags.ts"

const databaseFlag = Flag.String("database").pipe(
  Flag.withDescription("The PostgreSQL database. Default: STINT_DATABASE"),
  Flag.optional
)

const migrate = Command.make(
  "migrate",
  { database: databaseFlag, json },
  Effect.fnUntraced(function*({ database: flag, json }) {
    const url = yield* DatabaseConfig.resolve(flag, yield* PlatformConfig.load)
    if (url === undefined) {
      return yield* new CliFailure({
        message: "There is no PostgreSQL database: STINT_DATABASE is not set.",
        hint: "Set it, or use --database. A platform without it migrates the file in its data folder when it starts."
      })
    }
    const { Migrate } = yield* DatabaseStores.load
    const migrated = yield* Migrate.migrate({ url }).pipe(
      Effect.mapError(({ message }) => new CliFailure({ message, hint: "Nothing was changed. Check the database: stint doctor" }))
    )
    yield* Output.print(
      json,
      migrated,
      ({ database, version }) => `The tables at ${Output.inline(database)} have version ${version}, the version of this program.`
    )
  })
).pipe(
  Command.withDescription("Create or update the tables in PostgreSQL, without starting a node"),
  Command.withExamples([{ command: "stint database migrate", description: "Before nodes of a new version start" }])
)

const importCommand = Command.make(
  "import",
  {
    from: Flag.String("from").pipe(
      Flag.withDescription("The data folder of a stopped platform, or an extracted backup. Default: STINT_DATA_DIR"),
      Flag.optional
    ),
    database: databaseFlag,
    json
  },
  Effect.fnUntraced(function*({ database: flag, from, json }) {
    const settings = yield* PlatformConfig.load
    const url = yield* DatabaseConfig.resolve(flag, settings)
    if (url === undefined) {
      return yield* new CliFailure({
        message: "There is no PostgreSQL database to import into: STINT_DATABASE is not set.",
        hint: "Set it, or use --database."
      })
    }
    const imported = yield* DatabaseImport.run(resolve(Option.getOrElse(from, () => settings.dataDir)), url)
    yield* Output.print(json, imported, DatabaseImport.format)
  })
).pipe(
  Command.withDescription("Copy a platform from its data folder into an empty PostgreSQL database, and compare both"),
  Command.withExamples([
    { command: "stint database import --from /var/lib/stint", description: "Into the database of STINT_DATABASE" }
  ])
)

/** `stint database`. */
export const database = Command.make("database").pipe(
  Command.withDescription("Prepare a PostgreSQL database"),
  Command.withSubcommands([importCommand, migrate])
)

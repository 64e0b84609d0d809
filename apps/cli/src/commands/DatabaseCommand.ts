/**
 * `stint database migrate` brings the tables in PostgreSQL to the version of this program, without starting a node (docs/operations/many-nodes.md).
 */
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import { CliFailure } from "../CliFailure.ts"
import * as DatabaseConfig from "../config/DatabaseConfig.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"
import * as Output from "../output/Output.ts"
import * as DatabaseStores from "../platform/DatabaseStores.ts"
import { json } from "./SharedFlags.ts"

const migrate = Command.make(
  "migrate",
  {
    database: Flag.String("database").pipe(
      Flag.withDescription("The PostgreSQL database. Default: STINT_DATABASE"),
      Flag.optional
    ),
    json
  },
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
      ({ database, version }) => `The tables at ${Output.inline(database)} have the version ${version}, that of this program.`
    )
  })
).pipe(
  Command.withDescription("Create or update the tables in PostgreSQL, without starting a node"),
  Command.withExamples([{ command: "stint database migrate", description: "Before nodes of a new version start" }])
)

/** `stint database`. */
export const database = Command.make("database").pipe(
  Command.withDescription("Prepare a PostgreSQL database"),
  Command.withSubcommands([migrate])
)

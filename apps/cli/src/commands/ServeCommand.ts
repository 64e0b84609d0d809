/**
 * `stint serve`: runs the platform, or one node of it.
 */
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"

export const command = Command.make(
  "serve",
  {
    config: Flag.String("config").pipe(
      Flag.withDescription("A file with `export default defineConfig({ endpoints })`"),
      Flag.optional
    ),
    database: Flag.String("database").pipe(
      Flag.withDescription(
        "A PostgreSQL database, for one or several nodes: postgres://USER@HOST/DATABASE. Default: STINT_DATABASE"
      ),
      Flag.optional
    )
  },
  // Other commands start faster without the platform.
  (flags) => Effect.flatMap(Effect.promise(() => import("../platform/ServeProgram.ts")), ({ serve }) => serve(flags))
).pipe(
  Command.withAlias("start"),
  Command.withDescription("Run the platform on this machine"),
  Command.withExamples([
    { command: "stint serve", description: "Serve the endpoints in the data folder" },
    { command: "stint serve --config stint.config.ts", description: "Serve the endpoints that a file defines" },
    { command: "stint serve --database postgres://stint@db.internal/stint", description: "Store everything in PostgreSQL" }
  ])
)

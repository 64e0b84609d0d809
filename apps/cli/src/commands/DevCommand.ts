/**
 * `stint dev`: runs handlers on its own platform ({@link import("../dev/DevProgram.ts")}).
 */
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"

export const command = Command.make(
  "dev",
  {
    handler: Argument.String("handler").pipe(
      Argument.withDescription(
        "A file that calls serverless.start or launches a Worker (default: all endpoints of stint.config.ts)"
      ),
      Argument.optional
    ),
    config: Flag.String("config").pipe(
      Flag.withDescription("A file with `export default defineConfig({ endpoints })` (default: stint.config.ts)"),
      Flag.optional
    ),
    name: Flag.String("name").pipe(
      Flag.withDescription("Name of the endpoint of a handler file (default: the name of the file or its folder)"),
      Flag.optional
    )
  },
  // Other commands start faster without the platform.
  (flags) => Effect.flatMap(Effect.promise(() => import("../dev/DevProgram.ts")), ({ dev }) => dev(flags))
).pipe(
  Command.withDescription("Run handlers on their own platform and reload them on every save"),
  Command.withExamples([
    { command: "stint dev", description: "Serve the endpoints of stint.config.ts in this folder" },
    { command: "stint dev ./handler.ts", description: "Serve one file at /v2/{folder name}" }
  ])
)

/**
 * The `stint` command.
 */
import { Command } from "effect/cli"
import * as Batch from "./commands/Batch.ts"
import * as Dev from "./commands/Dev.ts"
import * as Endpoints from "./commands/Endpoints.ts"
import * as Keys from "./commands/Keys.ts"
import * as Logs from "./commands/Logs.ts"
import * as Run from "./commands/Run.ts"
import * as Serve from "./commands/Serve.ts"
import * as Status from "./commands/Status.ts"
import * as Webhooks from "./commands/Webhooks.ts"
import * as PlatformClient from "./PlatformClient.ts"

/** Commands that run a platform in this process. */
const platform = [Serve.command, Dev.command] as const

/** Commands that talk to one. */
const client = [
  Run.command.pipe(Command.provide(PlatformClient.layer)),
  Status.status.pipe(Command.provide(PlatformClient.layer)),
  Logs.command.pipe(Command.provide(PlatformClient.layer)),
  Status.cancel.pipe(Command.provide(PlatformClient.layer)),
  Endpoints.endpoints.pipe(Command.provide(PlatformClient.layer)),
  Endpoints.workerEnv.pipe(Command.provide(PlatformClient.layer)),
  Batch.batch.pipe(Command.provide(PlatformClient.layer)),
  Keys.keys.pipe(Command.provide(PlatformClient.layer)),
  Webhooks.webhooks.pipe(Command.provide(PlatformClient.layer))
] as const

export const command = Command.make("stint").pipe(
  Command.withDescription("Typed serverless jobs on your own machines"),
  Command.withSubcommands([...platform, ...client])
)

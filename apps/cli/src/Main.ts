/**
 * Runs the `stint` command. `bin.ts` loads this module after it has checked the version of Node.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Command } from "effect/cli"
import * as Effect from "effect/Effect"
import process from "node:process"
import manifest from "../package.json" with { type: "json" }
import { command } from "./Cli.ts"
import * as ErrorOutput from "./output/ErrorOutput.ts"
import { teardown } from "./Signals.ts"

/** Runs the command in this process's arguments, then ends the process. */
export const run = (): void =>
  Command.run(command, { version: manifest.version }).pipe(
    Effect.provide([NodeServices.layer, ErrorOutput.layer(process.argv.slice(2))]),
    (program) => NodeRuntime.runMain(program, { teardown })
  )

/**
 * Flags and arguments shared by several commands.
 */
import { Argument, Flag } from "effect/cli"

/** `--json`: prints one JSON document on standard output. */
export const json = Flag.Boolean("json").pipe(
  Flag.withDescription("Print JSON instead of text"),
  Flag.withDefault(false)
)

/** The endpoint argument. */
export const endpoint = Argument.String("endpoint").pipe(Argument.withDescription("Name of the endpoint"))

/** The job argument. */
export const jobId = Argument.String("job").pipe(Argument.withDescription("Id of the job"))

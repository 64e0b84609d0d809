/**
 * Flags that several commands have.
 */
import { Argument, Flag } from "effect/cli"

/** `--json`: one JSON document on standard output. */
export const json = Flag.Boolean("json").pipe(
  Flag.withDescription("Print JSON, for programs"),
  Flag.withDefault(false)
)

/** The endpoint that a command is about. */
export const endpoint = Argument.String("endpoint").pipe(Argument.withDescription("Name of the endpoint"))

/** The job that a command is about. */
export const jobId = Argument.String("job").pipe(Argument.withDescription("Id of the job"))

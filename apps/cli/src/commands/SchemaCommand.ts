/**
 * `stint schema` shows what the handler of an endpoint takes and returns.
 */
import { Argument, Command } from "effect/cli"
import * as Effect from "effect/Effect"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { json } from "./SharedFlags.ts"

/** `stint schema`. */
export const schema = Command.make(
  "schema",
  { endpoint: Argument.String("endpoint").pipe(Argument.withDescription("Name of the endpoint")), json },
  Effect.fnUntraced(function*({ endpoint, json }) {
    const found = yield* call((api) => api.jobs.schema({ params: { endpoint } }))
    if (found === undefined) {
      return yield* new CliFailure({
        message: `No worker has reported the schema of the handler of endpoint "${endpoint}".`,
        hint:
          "Workers report it after their start, if the handler has Schemas and Stint's SDK runs it. Submit a job to start one."
      })
    }
    yield* Output.print(json, found, (schema) => JSON.stringify(schema, null, 2))
  })
).pipe(Command.withDescription("Show what an endpoint's handler takes and returns, as JSON Schemas"))

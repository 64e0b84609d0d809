/**
 * `stint status` and `stint cancel`: one job.
 */
import { Command } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Output from "../Output.ts"
import { call } from "../PlatformClient.ts"
import { endpoint, jobId, json } from "./Shared.ts"

/** `stint status`. */
export const status = Command.make(
  "status",
  { endpoint, jobId, json },
  Effect.fnUntraced(function*({ endpoint, jobId, json }) {
    const job = yield* call((api) => api.jobs.status({ params: { endpoint, id: jobId } }))
    yield* Output.print(json, job, Output.job)
  })
).pipe(Command.withDescription("Show a job"))

/** `stint cancel`. A job that had ended before is left as it is, and the command says so. */
export const cancel = Command.make(
  "cancel",
  { endpoint, jobId, json },
  Effect.fnUntraced(function*({ endpoint, jobId, json }) {
    const receipt = yield* call((api) => api.jobs.cancel({ params: { endpoint, id: jobId } }))
    yield* Output.print(
      json,
      receipt,
      ({ id, status }) =>
        status === "CANCELLED" ? `${id}  CANCELLED` : `${id}  ${status}\nThe job had ended before; nothing was cancelled.`
    )
  })
).pipe(Command.withDescription("Cancel a waiting or running job"))

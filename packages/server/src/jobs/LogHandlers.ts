/**
 * The jobs API's part for log lines.
 */
import { Api } from "@stint/contract/Api"
import { JobLogs } from "@stint/queue/JobLogs"
import { JobQueue } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import { endpointFinder, mapLookupErrors, mapStoreErrors } from "../http/QueueProblems.ts"
import { logLineForCaller } from "./LogView.ts"

/** The handlers of log lines. */
export const layer = HttpApiBuilder.group(
  Api,
  "logs",
  Effect.fnUntraced(function*(handlers) {
    const queue = yield* JobQueue
    const logs = yield* JobLogs
    const findEndpoint = yield* endpointFinder

    return handlers.handle(
      "logs",
      Effect.fnUntraced(function*({ params, query }) {
        const endpoint = yield* findEndpoint(params.endpoint)
        const job = yield* mapLookupErrors(queue.get(endpoint.id, params.id))
        // What came in before this call is told by it.
        yield* logs.flush
        const { cursor, lines, more } = yield* mapStoreErrors(logs.read(job.endpoint, job.id, query))
        return { lines: lines.map(logLineForCaller), cursor, more }
      })
    )
  })
)

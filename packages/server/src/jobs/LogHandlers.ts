/**
 * The jobs API operations that return log lines.
 */
import { Api } from "@stint/contract/Api"
import { CurrentEndpoint } from "@stint/contract/Authorization"
import { JobLogs } from "@stint/queue/JobLogs"
import { JobQueue } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import { mapLookupErrors, mapStoreErrors } from "../http/QueueProblems.ts"
import { cursorOf, cursorText, foundLineForCaller, logLineForCaller } from "./LogView.ts"

/** The handlers of log lines. */
export const layer = HttpApiBuilder.group(
  Api,
  "logs",
  Effect.fnUntraced(function*(handlers) {
    const queue = yield* JobQueue
    const logs = yield* JobLogs

    return handlers.handle(
      "searchLogs",
      Effect.fnUntraced(function*({ query: { cursor, ...query } }) {
        const endpoint = yield* CurrentEndpoint
        yield* logs.flush
        const options = { ...query, cursor: cursor === undefined ? undefined : cursorOf(cursor) }
        const { lines, next, ...found } = yield* mapStoreErrors(logs.search(endpoint.id, options))
        return { lines: lines.map(foundLineForCaller), cursor: next === null ? null : cursorText(next), ...found }
      })
    ).handle(
      "logs",
      Effect.fnUntraced(function*({ params, query }) {
        const endpoint = yield* CurrentEndpoint
        const job = yield* mapLookupErrors(queue.get(endpoint.id, params.id))
        // Flush first, so that the response includes all lines that were received before this call.
        yield* logs.flush
        const { cursor, lines, more } = yield* mapStoreErrors(logs.read(job.endpoint, job.id, query))
        return { lines: lines.map(logLineForCaller), cursor, more }
      })
    )
  })
)

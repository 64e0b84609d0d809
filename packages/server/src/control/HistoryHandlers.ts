/**
 * The last hour of the endpoints, for charts.
 */
import { Api } from "@stint/contract/Api"
import { CurrentViewer } from "@stint/contract/OverviewApi"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import { endpointFinder } from "../http/QueueProblems.ts"
import { EndpointHistories } from "./EndpointHistories.ts"

const DEFAULT_MINUTES = 15

/** The handlers. */
export const layer = HttpApiBuilder.group(
  Api,
  "history",
  Effect.fnUntraced(function*(handlers) {
    const histories = yield* EndpointHistories
    const findEndpoint = yield* endpointFinder
    return handlers
      .handle(
        "history",
        Effect.fnUntraced(function*() {
          const { endpoints: permitted } = yield* CurrentViewer
          return {
            since: histories.since(),
            shared: histories.isShared(),
            endpoints: histories.rates().filter(({ id }) => permitted === "all" || permitted.some((one) => one === id))
          }
        })
      )
      .handle(
        "historyOfEndpoint",
        Effect.fnUntraced(function*({ params, query: { minutes = DEFAULT_MINUTES } }) {
          const { endpoints: permitted } = yield* CurrentViewer
          const { id } = yield* findEndpoint(params.endpoint, permitted === "all")
          return { id, since: histories.since(), shared: histories.isShared(), ...histories.of(id, minutes) }
        })
      )
  })
)

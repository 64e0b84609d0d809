/**
 * The control API of alerts.
 */
import { Api } from "@stint/contract/Api"
import { CurrentViewer } from "@stint/contract/OverviewApi"
import { Conflict, problemMembers } from "@stint/contract/Problem"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import { Alerts } from "./Alerts.ts"

const off = new Conflict(
  problemMembers(
    "This platform sends no alerts.",
    "Set STINT_ALERT_URL and STINT_ALERT_SECRET in the environment of the platform, and restart it."
  )
)

export const layer = HttpApiBuilder.group(
  Api,
  "alerts",
  Effect.fnUntraced(function*(handlers) {
    const { list, test } = yield* Alerts
    return handlers
      .handle(
        "listAlerts",
        Effect.fnUntraced(function*() {
          const { endpoints } = yield* CurrentViewer
          const { alerts, configured, receivers } = yield* list
          if (endpoints === "all") return { configured, alerts, receivers }
          const permitted = alerts.filter(({ endpoint }) => endpoints.some((one) => one === endpoint))
          return { configured, alerts: permitted, receivers: [] }
        })
      )
      .handle("testAlerts", () => Effect.mapError(test, () => off))
  })
)

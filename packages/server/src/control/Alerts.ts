/**
 * The alerts of the platform, as the API shows them. `@stint/alerts` implements them; a platform without receivers does not load it.
 */
import type { AlertList, AlertTest } from "@stint/contract/Alert"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** No receiver is configured. */
export class AlertsOff extends Schema.TaggedError<AlertsOff>()("AlertsOff", {}) {}

/** Default: alerts are off. */
export const Alerts = Context.Reference<{
  /** The alerts that are firing, and the state of the receivers. */
  readonly list: Effect.Effect<AlertList>
  /** Sends one test alert to every receiver. */
  readonly test: Effect.Effect<AlertTest, AlertsOff>
}>("@stint/server/Alerts", {
  defaultValue: () => ({
    list: Effect.succeed({ configured: false, alerts: [], receivers: [] }),
    test: Effect.suspend(() => new AlertsOff())
  })
})

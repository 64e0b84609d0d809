/**
 * `stint alerts` lists firing alerts, and sends a test to their receivers.
 */
import type { AlertList, AlertTest } from "@stint/contract/Alert"
import { Command } from "effect/cli"
import * as Effect from "effect/Effect"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { json } from "./SharedFlags.ts"

const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

const alertText = ({ action, firedAt, fingerprint, summary }: AlertList["alerts"][number]): string =>
  `${Output.inline(fingerprint)}  since ${timeText(firedAt)} UTC\n  ${Output.inline(summary)}\n  ${Output.inline(action)}`

const receiverText = ({ deliveredAt, origin, problem, waiting }: AlertList["receivers"][number]): ReadonlyArray<string> => [
  Output.inline(origin),
  deliveredAt === undefined ? "nothing yet" : timeText(deliveredAt),
  String(waiting),
  problem === undefined ? "-" : problem
]

const format = ({ alerts, configured, receivers }: AlertList): string => {
  if (!configured) {
    return "Alerts are off. Set STINT_ALERT_URL and STINT_ALERT_SECRET in the environment of the platform, and restart it."
  }
  const firing = alerts.length === 0 ? "No alert is firing." : alerts.map(alertText).join("\n\n")
  return receivers.length === 0
    ? firing
    : `${firing}\n\n${Output.table([["RECEIVER", "DELIVERED (UTC)", "WAITING", "PROBLEM"], ...receivers.map(receiverText)])}`
}

const list = Command.make(
  "list",
  { json },
  Effect.fnUntraced(function*({ json }) {
    yield* Output.print(json, yield* call((api) => api.alerts.listAlerts()), format)
  })
).pipe(Command.withDescription("List the alerts that are firing, and the state of their receivers"))

const answers = ({ receivers }: AlertTest): string =>
  receivers.map(({ delivered, origin, problem, status }) =>
    `${delivered ? "delivered" : "failed   "}  ${Output.inline(origin)}  ${
      delivered ? `answered ${status}` : Output.inline(problem ?? "")
    }`
  ).join("\n")

const test = Command.make(
  "test",
  { json },
  Effect.fnUntraced(function*({ json }) {
    const result = yield* call((api) => api.alerts.testAlerts())
    yield* Output.print(json, result, answers)
    if (result.receivers.every(({ delivered }) => delivered)) return
    return yield* new CliFailure({
      message: "The test did not reach every receiver.",
      hint: "Check STINT_ALERT_URL and the receiver. A private address must be in STINT_WEBHOOKS_ALLOW.",
      code: "not-delivered"
    })
  })
).pipe(Command.withDescription("Send a test to every receiver of alerts, and show the responses"))

/** `stint alerts`. */
export const alerts = Command.make("alerts").pipe(
  Command.withDescription("List firing alerts, and test their receivers"),
  Command.withSubcommands([list, test])
)

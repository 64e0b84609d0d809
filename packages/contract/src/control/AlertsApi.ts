/**
 * The operations on alerts, a part of the control API (docs/operations/alerts.md).
 *
 * ```
 *   /api/v1/alerts        GET    the alerts that fire now
 *   /api/v1/alerts/test   POST   sends a test to every receiver, and returns the responses
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { KeysAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { Conflict } from "../Problem.ts"
import { AlertList, AlertTest } from "./Alert.ts"
import { ViewerAuthorization } from "./OverviewApi.ts"

export class AlertsApi extends HttpApiGroup.make("alerts")
  .add(
    HttpApiEndpoint.get("listAlerts", "/alerts", { success: AlertList }).middleware(ViewerAuthorization).annotateMerge(
      operationDocs({
        summary: "List the alerts that fire",
        description:
          "Returns the alerts that fire now on the endpoints that the key permits. A key for all endpoints also receives the alerts of the " +
          "whole platform, and the state of the receivers. Requires the scope `jobs:read`, `deploy` or `admin`.",
        responses: {
          200: {
            configured: true,
            alerts: [{
              id: "Q2bY3kz1mT0x8s5w",
              fingerprint: "queue_old/hello",
              kind: "queue_old",
              endpoint: "hello",
              summary: "The oldest waiting job of endpoint hello has waited for 16 minutes.",
              action: "Find out why it waits: stint jobs list hello --status IN_QUEUE, then stint status hello JOB --explain.",
              firedAt: 1_790_000_000_000
            }],
            receivers: [{ origin: "https://alerts.example.com", waiting: 0, deliveredAt: 1_790_000_000_100 }]
          }
        }
      })
    ),
    HttpApiEndpoint.post("testAlerts", "/alerts/test", { success: AlertTest, error: Conflict }).middleware(KeysAuthorization)
      .annotateMerge(operationDocs({
        summary: "Send a test alert",
        description:
          "Sends a message of the type `alert.test` once to every receiver, and returns each response. Requires an admin key. Returns 409 " +
          "when no receiver is configured.",
        responses: { 200: { receivers: [{ origin: "https://alerts.example.com", delivered: true, status: 204 }] } }
      }))
  )
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Alerts", description: "Problems that an operator must know about" }))
{}

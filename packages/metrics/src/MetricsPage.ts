/**
 * `GET /metrics` in Prometheus' text format. Requires a key with the scope `jobs:read`, or more, for all endpoints.
 */
import { AuthGuards } from "@stint/server/AuthGuards"
import { mapStoreErrors } from "@stint/server/QueueProblems"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerRespondable, HttpServerResponse } from "effect/http"
import { PrometheusMetrics } from "effect/observability"
import * as Redacted from "effect/Redacted"
import { PlatformGauges } from "./PlatformGauges.ts"

const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

/** The route, for `Server.layerWith`. */
export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const gauges = yield* PlatformGauges
  const guards = yield* AuthGuards
  const page = Effect.gen(function*() {
    const state = yield* mapStoreErrors(gauges.take)
    const text = (yield* PrometheusMetrics.format()) + PrometheusMetrics.formatUnsafe(state)
    return HttpServerResponse.text(text, { contentType: CONTENT_TYPE, headers: { "cache-control": "no-store" } })
  })
  yield* router.add(
    "GET",
    "/metrics",
    (request) =>
      guards.reader(page, Redacted.make(request.headers["authorization"] ?? ""), "/metrics").pipe(
        Effect.catch(HttpServerRespondable.toResponse)
      )
  )
}))

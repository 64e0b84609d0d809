/**
 * Tests the alert operations of a platform without receivers (docs/operations/alerts.md).
 */
import { expect } from "@effect/vitest"
import { AlertList } from "@stint/contract/Alert"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const decode = expectJson(200, AlertList)

/** Registers the tests. */
export const alerts = (it: ServerIt): void => {
  it.effect("alerts: says that none are configured, and how to configure them", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      expect(yield* Effect.flatMap(call("/api/v1/alerts"), decode)).toEqual({ configured: false, alerts: [], receivers: [] })
      const { hint } = yield* Effect.flatMap(call("/api/v1/alerts/test", { method: "POST" }), expectProblem(409))
      expect(hint).toContain("STINT_ALERT_URL")
      yield* Effect.flatMap(call("/api/v1/alerts", { authorization: "wrong" }), expectProblem(401))
    }))
}

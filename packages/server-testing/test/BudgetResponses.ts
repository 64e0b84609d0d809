/**
 * Tests the responses of a server on which a budget has been used up.
 */
import { expect, layer } from "@effect/vitest"
import { BatchReceipt } from "@stint/contract/Batch"
import { BulkOperation } from "@stint/contract/Bulk"
import { BudgetReached } from "@stint/contract/Problem"
import { UsageReport } from "@stint/contract/UsageApi"
import { Budgets, type BudgetState } from "@stint/queue/Budgets"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ServerTest from "../src/ServerTest.ts"
import { until } from "../src/TestEndpoint.ts"
import { expectJson } from "../src/WireClient.ts"

const SPENT: BudgetState = {
  scope: "endpoint",
  id: "spent",
  period: "monthly",
  limit: 50,
  spent: 50.25,
  currency: "EUR",
  renewsAt: Date.parse("2026-12-01T00:00:00Z")
}

/** The endpoint that has used its budget. */
const reached = { endpoint: "" }

const layerBudgets = Layer.succeed(Budgets, {
  prices: { currency: "EUR", perSecond: { execution: 1 }, endpoints: {} },
  reachedBy: (endpoint) => endpoint === reached.endpoint ? { ...SPENT, id: endpoint } : undefined,
  list: () => [SPENT, { ...SPENT, scope: "key", id: "ci", spent: 0.1 + 0.2 }]
})

const refused = expectJson(402, BudgetReached)

/** Registers the tests. */
export const budgetResponses = (): void => {
  layer(ServerTest.layer().pipe(Layer.provide(layerBudgets)), { excludeTestServices: true })("budgets", (it) => {
    it.effect("refuses submissions with 402, names the budget and when it renews, and lets accepted jobs continue", () =>
      Effect.gen(function*() {
        const { call, endpoint } = yield* ServerTest.ServerTest
        const one = yield* endpoint()
        const { id } = yield* one.run(1)
        const draft = yield* Effect.flatMap(call(`/v2/${one.id}/batch`, { json: [{ input: 2 }] }), expectJson(200, BatchReceipt))
        const schedule = `/api/v1/endpoints/${one.id}/schedules/yearly`
        yield* call(schedule, { method: "PUT", json: { cron: "0 0 1 1 *", input: 3 } })
        reached.endpoint = one.id

        for (const path of ["run", "runsync"]) {
          const problem = yield* Effect.flatMap(call(`/v2/${one.id}/${path}`, { json: { input: 1 } }), refused)
          expect(problem).toMatchObject({
            detail:
              `The monthly budget of 50 EUR of the endpoint "${one.id}" is used up. It renews at 2026-12-01T00:00:00.000Z. ` +
              "Nothing of this request was stored.",
            renewsAt: SPENT.renewsAt
          })
        }
        const openAi = yield* call(`/v2/${one.id}/openai/v1/chat/completions`, { json: {} })
        expect([openAi.status, openAi.json]).toMatchObject([402, {
          error: {
            type: "insufficient_quota",
            code: "insufficient_quota",
            message: expect.stringContaining("It renews at 2026-12-01")
          }
        }])
        yield* Effect.flatMap(call(`/v2/${one.id}/batch/${draft.id}/finalize`, { method: "POST" }), refused)
        yield* Effect.flatMap(call(`${schedule}/run-now`, { method: "POST" }), refused)

        const worker = yield* one.worker("ann")
        expect((yield* worker.next).id).toBe(id)
        yield* worker.finish(id, "done")

        const rerun = { action: "rerun", query: `endpoint:${one.id}`, holdMs: 0 }
        const { id: bulk } = yield* Effect.flatMap(call("/api/v1/bulk", { json: rerun }), expectJson(201, BulkOperation))
        const operation = yield* until(
          Effect.flatMap(call(`/api/v1/bulk/${bulk}`), expectJson(200, BulkOperation)),
          ({ state }) => state === "done"
        )
        expect(operation).toMatchObject({
          done: 0,
          failed: 1,
          problems: [{ job: id, reason: expect.stringContaining("budget") }]
        })

        reached.endpoint = ""
        yield* one.run(1)
      }))

    it.effect("lists the budgets, and reports costs next to the seconds", () =>
      Effect.gen(function*() {
        const { call } = yield* ServerTest.ServerTest
        const report = yield* Effect.flatMap(call("/api/v1/usage"), expectJson(200, UsageReport))
        expect(report).toMatchObject({ currency: "EUR", total: { cost: expect.any(Number) } })
        expect(report.budgets).toEqual([
          { scope: "endpoint", id: "spent", period: "monthly", limit: 50, spent: 50.25, reached: true, renewsAt: SPENT.renewsAt },
          { scope: "key", id: "ci", period: "monthly", limit: 50, spent: 0.3, reached: false, renewsAt: SPENT.renewsAt }
        ])
      }))
  })
}

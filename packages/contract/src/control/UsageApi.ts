/**
 * The operation that reads usage and its cost, a part of the control API (docs/operations/usage.md).
 *
 * ```
 *   /api/v1/usage   GET   ?by=endpoint|release|key ?endpoint ?from ?to ?step=hour|day|month|all
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { timeText } from "../jobs/JobList.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { InvalidRequest, Unavailable } from "../Problem.ts"
import { ViewerAuthorization } from "./OverviewApi.ts"

/** How the rows are grouped. */
export const UsageBy = Schema.Literals(["endpoint", "release", "key"])
export type UsageBy = typeof UsageBy.Type

/** The time of a row. Days and months begin at 00:00 UTC. */
export const UsageStep = Schema.Literals(["hour", "day", "month", "all"])
export type UsageStep = typeof UsageStep.Type

/** The maximum number of rows in a response. */
export const MAX_USAGE_ROWS = 5_000

const Amount = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

/** Sums. */
export const UsageSums = Schema.Struct({
  /** Attempts that ended. */
  attempts: Schema.Natural,
  /** The execution time of ended attempts, including failed, cancelled and lost ones. */
  executionSeconds: Amount,
  /** How long workers of the platform's pools were ready, including idle time. */
  workerSeconds: Amount,
  /** Their CPU time, as far as the pool can measure it. */
  cpuSeconds: Amount,
  /** `workerSeconds` times the number of GPUs of the worker. */
  gpuSeconds: Amount,
  /** Absent without prices. */
  cost: Schema.optionalKey(Amount)
})
export type UsageSums = typeof UsageSums.Type

/** The sums of one endpoint, release or key, for one time step. Times are in milliseconds since 1970. */
export const UsageRow = Schema.Struct({
  /** The beginning of the step, or of the whole period. */
  from: Schema.Int,
  /** Absent in sums by key. */
  endpoint: Schema.optionalKey(Schema.String),
  /** Only in sums by release. Absent for an endpoint without releases, and if unknown. */
  release: Schema.optionalKey(Schema.Int),
  /**
   * Only in sums by key: the id of the key. Absent for worker time in an hour in which no job of the endpoint ran, and for jobs without a key. `*`:
   * keys that were not counted separately, because there were too many.
   */
  key: Schema.optionalKey(Schema.String),
  ...UsageSums.fields
})
export type UsageRow = typeof UsageRow.Type

/** A budget. */
export const BudgetStatus = Schema.Struct({
  scope: Schema.Literals(["endpoint", "key"]),
  /** The id of the endpoint or of the key. */
  id: Schema.String,
  period: Schema.Literals(["daily", "monthly"]),
  limit: Amount,
  spent: Amount,
  /** Whether new jobs are rejected. */
  reached: Schema.Boolean,
  /** When the next period begins. Milliseconds since 1970. */
  renewsAt: Schema.Int
})
export type BudgetStatus = typeof BudgetStatus.Type

/** Usage and its cost. */
export const UsageReport = Schema.Struct({
  from: Schema.Int,
  to: Schema.Int,
  by: UsageBy,
  step: UsageStep,
  /** The label of the costs. Absent without prices. */
  currency: Schema.optionalKey(Schema.String),
  /** By time, then by endpoint, release or key. */
  rows: Schema.Array(UsageRow),
  total: UsageSums,
  /** The budgets that the key may see. */
  budgets: Schema.Array(BudgetStatus)
})
export type UsageReport = typeof UsageReport.Type

const UsageQuery = {
  by: Schema.optionalKey(UsageBy.annotate({ description: "How to group the sums. Default: endpoint." })),
  endpoint: Schema.optionalKey(
    Schema.String.check(Schema.isMaxLength(1_000)).annotate({ description: "Only this endpoint. It may have been removed." })
  ),
  from: Schema.optionalKey(timeText("From the hour (UTC) that contains this time. Default: 30 days before `to`.")),
  to: Schema.optionalKey(timeText("Only hours that begin before this time. Default: now.")),
  step: Schema.optionalKey(
    UsageStep.annotate({ description: "The time step of each row. Default: all, one row for the whole time." })
  )
}

/** The operation. */
export class UsageApi extends HttpApiGroup.make("usage")
  .add(
    HttpApiEndpoint.get("getUsage", "/usage", {
      query: UsageQuery,
      success: UsageReport,
      error: [InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get usage and its cost",
      description:
        "Returns handler, worker, CPU and GPU time in seconds, and its cost at the current prices. Usage appears within 20 seconds. A " +
        "key that is limited to some endpoints sees only these. With `by=key`, an admin key sees all keys, and any other key sees only itself. Requires the " +
        "scope `jobs:read`, `deploy` or `admin`.",
      responses: {
        200: {
          from: 1_789_999_200_000,
          to: 1_790_002_800_000,
          by: "endpoint",
          step: "all",
          currency: "EUR",
          rows: [{
            from: 1_789_999_200_000,
            endpoint: "hello",
            attempts: 120,
            executionSeconds: 95.4,
            workerSeconds: 310,
            cpuSeconds: 41.2,
            gpuSeconds: 0,
            cost: 0.0351
          }],
          total: { attempts: 120, executionSeconds: 95.4, workerSeconds: 310, cpuSeconds: 41.2, gpuSeconds: 0, cost: 0.0351 },
          budgets: [{
            scope: "endpoint",
            id: "hello",
            period: "monthly",
            limit: 50,
            spent: 12.5,
            reached: false,
            renewsAt: 1_790_812_800_000
          }]
        }
      }
    }))
  )
  .middleware(ViewerAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Usage", description: "Usage and its cost" }))
{}

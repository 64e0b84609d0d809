/**
 * Reads usage: sums the stored hours, and computes their cost at the current prices.
 */
import { Api } from "@stint/contract/Api"
import { CurrentViewer } from "@stint/contract/OverviewApi"
import { InvalidRequest, problemMembers } from "@stint/contract/Problem"
import {
  type BudgetStatus,
  MAX_USAGE_ROWS,
  type UsageBy,
  type UsageRow,
  type UsageStep,
  type UsageSums
} from "@stint/contract/UsageApi"
import { costOf, type Prices } from "@stint/queue/Billing"
import { Budgets, type BudgetState, periodOf } from "@stint/queue/Budgets"
import { readUsage } from "@stint/queue/UsageReader"
import { HOUR_MILLIS, type UsageRecord, UsageStore } from "@stint/store/UsageStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import { mapStoreErrors } from "../http/QueueProblems.ts"

/** The time span of a report without `from`. */
const DEFAULT_MILLIS = 30 * 24 * HOUR_MILLIS

/** The maximum number of records that a report reads, which takes about a second. */
const MAX_RECORDS = 200_000

const tooManyRecords = new InvalidRequest(
  problemMembers(`This time span has more than ${MAX_RECORDS} hourly records.`, "Request a shorter time span (from, to).")
)

const tooManyRows = new InvalidRequest(
  problemMembers(
    `The report would have more than ${MAX_USAGE_ROWS} rows.`,
    "Request a shorter time span (from, to), a longer step, or one endpoint."
  )
)

/** The beginning of the step that contains an hour. */
const stepOf = (step: UsageStep, hour: number, from: number): number => {
  switch (step) {
    case "hour":
      return hour
    case "day":
      return periodOf("daily", hour).from
    case "month":
      return periodOf("monthly", hour).from
    case "all":
      return from
  }
}

interface Sums {
  attempts: number
  executionMs: number
  workerMs: number
  cpuMs: number
  gpuMs: number
  cost: number
}

const nothing = (): Sums => ({ attempts: 0, executionMs: 0, workerMs: 0, cpuMs: 0, gpuMs: 0, cost: 0 })

const add = (sums: Sums, record: UsageRecord, prices: Prices | undefined) => {
  sums.attempts += record.attempts
  sums.executionMs += record.executionMs
  sums.workerMs += record.workerMs
  sums.cpuMs += record.cpuMs
  sums.gpuMs += record.gpuMs
  if (prices !== undefined) sums.cost += costOf(prices, record.endpoint, record)
}

const seconds = (millis: number): number => Math.round(millis) / 1_000

const sumsOf = ({ attempts, cost, cpuMs, executionMs, gpuMs, workerMs }: Sums, prices: Prices | undefined): UsageSums => ({
  attempts,
  executionSeconds: seconds(executionMs),
  workerSeconds: seconds(workerMs),
  cpuSeconds: seconds(cpuMs),
  gpuSeconds: seconds(gpuMs),
  // Removes digits that are only rounding errors from the addition.
  ...(prices === undefined ? {} : { cost: Number(cost.toFixed(6)) })
})

const ownerOf = (by: UsageBy, { endpoint, key, release }: UsageRecord): Pick<UsageRow, "endpoint" | "release" | "key"> => {
  if (by === "key") return key === "" ? {} : { key }
  return by === "release" && release > 0 ? { endpoint, release } : { endpoint }
}

const statusOf = ({ id, limit, period, renewsAt, scope, spent }: BudgetState): BudgetStatus => ({
  scope,
  id,
  period,
  limit,
  spent: Number(spent.toFixed(6)),
  reached: spent >= limit,
  renewsAt
})

const compare = <A extends string | number>(a: A, b: A): number => a < b ? -1 : a > b ? 1 : 0

const inOrder = (a: UsageRow, b: UsageRow): number =>
  a.from - b.from || compare(a.endpoint ?? "", b.endpoint ?? "") || compare(a.release ?? 0, b.release ?? 0) ||
  compare(a.key ?? "", b.key ?? "")

export const layer = HttpApiBuilder.group(
  Api,
  "usage",
  Effect.fnUntraced(function*(handlers) {
    const store = yield* UsageStore
    const budgets = yield* Budgets
    const { prices } = budgets

    return handlers.handle(
      "getUsage",
      Effect.fnUntraced(function*({ query: { by = "endpoint", endpoint: only, from: wanted, step = "all", to: until } }) {
        const viewer = yield* CurrentViewer
        const permitted: "all" | ReadonlyArray<string> = viewer.endpoints
        const permits = (endpoint: string) => permitted === "all" || permitted.includes(endpoint)
        const to = until ?? (yield* Clock.currentTimeMillis)
        const from = Math.floor((wanted ?? to - DEFAULT_MILLIS) / HOUR_MILLIS) * HOUR_MILLIS
        const total = nothing()
        const found = new Map<
          string,
          { readonly row: Pick<UsageRow, "from" | "endpoint" | "release" | "key">; readonly sums: Sums }
        >()

        const use = (record: UsageRecord) => {
          const { endpoint, hour, key } = record
          if (!permits(endpoint) || (only !== undefined && endpoint !== only)) return
          if (by === "key" && !viewer.isAdmin && key !== viewer.key) return
          const row = { from: stepOf(step, hour, from), ...ownerOf(by, record) }
          const id = `${row.from}\n${row.endpoint ?? ""}\n${row.release ?? ""}\n${row.key ?? ""}`
          const known = found.get(id) ?? { row, sums: nothing() }
          if (found.size <= MAX_USAGE_ROWS) found.set(id, known)
          add(known.sums, record, prices)
          add(total, record, prices)
        }
        const isComplete = yield* mapStoreErrors(readUsage(store, { from, to, limit: MAX_RECORDS }, use))
        if (!isComplete) return yield* tooManyRecords
        if (found.size > MAX_USAGE_ROWS) return yield* tooManyRows
        return {
          from,
          to,
          by,
          step,
          ...(prices === undefined ? {} : { currency: prices.currency }),
          rows: [...found.values()].map(({ row, sums }) => ({ ...row, ...sumsOf(sums, prices) })).toSorted(inOrder),
          total: sumsOf(total, prices),
          budgets: budgets.list().filter(({ id, scope }) =>
            scope === "endpoint" ? permits(id) && (only === undefined || id === only) : viewer.isAdmin || id === viewer.key
          ).map(statusOf)
        }
      })
    )
  })
)

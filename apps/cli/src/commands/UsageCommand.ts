/**
 * `stint usage` shows usage and its cost.
 */
import type { BudgetStatus, UsageReport, UsageRow, UsageSums } from "@stint/contract/UsageApi"
import { costText, timeText } from "@stint/contract/UsageText"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import { json, queryOf, since } from "./SharedFlags.ts"

const amounts = (
  { attempts, cost, cpuSeconds, executionSeconds, gpuSeconds, workerSeconds }: UsageSums
): ReadonlyArray<string> => [
  String(attempts),
  ...[executionSeconds, workerSeconds, cpuSeconds, gpuSeconds].map(timeText),
  ...(cost === undefined ? [] : [costText(cost)])
]

const ownerText = ({ by }: UsageReport, { endpoint = "-", key = "-", release }: UsageRow): string =>
  by === "key" ? key : release === undefined ? endpoint : `${endpoint} release ${release}`

const LENGTHS = { hour: 16, day: 10, month: 7 } as const

const stepText = (step: Exclude<UsageReport["step"], "all">, from: number): string =>
  new Date(from).toISOString().replace("T", " ").slice(0, LENGTHS[step])

const budgetText = ({ id, limit, period, reached, renewsAt, scope, spent }: BudgetStatus, currency: string): string =>
  `Budget of ${scope} ${Output.inline(id)}, ${period}: ${costText(spent)} of ${limit} ${Output.inline(currency)}, renews ${
    new Date(renewsAt).toISOString().slice(0, 10)
  }${reached ? ". It is used up: new jobs are rejected" : ""}`

const format = (report: UsageReport): string => {
  const { budgets, by, currency, rows, step, total } = report
  const budgetLines = budgets.map((budget) => budgetText(budget, currency ?? ""))
  if (rows.length === 0) return ["No usage in this period.", ...budgetLines].join("\n")
  const time = (row: UsageRow) => step === "all" ? [] : [stepText(step, row.from)]
  const table = Output.table([
    [
      ...(step === "all" ? [] : [`${step.toUpperCase()} (UTC)`]),
      by.toUpperCase(),
      "ATTEMPTS",
      "EXECUTION",
      "WORKERS",
      "CPU",
      "GPU",
      ...(currency === undefined ? [] : [`COST (${currency})`])
    ],
    ...rows.map((row) => [...time(row), ownerText(report, row), ...amounts(row)]),
    [...(step === "all" ? [] : [""]), "total", ...amounts(total)]
  ])
  return [table, ...budgetLines].join("\n")
}

/** `stint usage`. */
export const command = Command.make(
  "usage",
  {
    endpoint: Argument.String("endpoint").pipe(
      Argument.withDescription("Only this endpoint, which may have been removed"),
      Argument.optional
    ),
    by: Flag.Literals("by", ["endpoint", "release", "key"]).pipe(
      Flag.withDescription("How to group the sums; default endpoint"),
      Flag.optional
    ),
    step: Flag.Literals("step", ["hour", "day", "month", "all"]).pipe(
      Flag.withDescription("The time of each row, in UTC; default all, one row for the whole time"),
      Flag.optional
    ),
    since: since("since").pipe(Flag.withDescription("Start: 24h, 7d, or 2026-11-22; default 30d"), Flag.optional),
    until: since("until").pipe(Flag.withDescription("End; default now"), Flag.optional),
    json
  },
  Effect.fnUntraced(function*({ json, since: from, until: to, ...flags }) {
    const report = yield* call((api) => api.usage.getUsage({ query: queryOf({ ...flags, from, to }) }))
    yield* Output.print(json, report, format)
  })
).pipe(
  Command.withDescription(
    "Show usage and its cost: handler, worker, CPU and GPU time (hours:minutes:seconds)"
  ),
  Command.withExamples([
    { command: "stint usage --since 7d", description: "The last week, by endpoint" },
    { command: "stint usage hello --by release --step day", description: "The releases of an endpoint, day by day" },
    { command: "stint usage --by key --since 2026-11-01 --json", description: "The month's usage by access key, for billing" }
  ])
)

/**
 * Usage: what ran and what it cost, over time and by endpoint, release or key, and the budgets.
 */
import type { UsageReport } from "@stint/contract/UsageApi"
import { useQuery } from "@tanstack/react-query"
import { useNavigate, useSearch } from "@tanstack/react-router"
import { useId } from "react"
import * as Api from "../api/Api.ts"
import { usage } from "../api/Usage.ts"
import { EndpointSelect } from "../endpoints/EndpointSelect.tsx"
import { useHour } from "../live/Clock.ts"
import { usePoll } from "../live/Connection.ts"
import { Chips, Select } from "../ui/Choices.tsx"
import { Download } from "../ui/Download.tsx"
import { Loaded } from "../ui/Loaded.tsx"
import { Code } from "../ui/Text.tsx"
import { Budgets, ReachedBudgets } from "../usage/Budgets.tsx"
import { useKeyNames } from "../usage/OwnerNames.ts"
import { UsageChart } from "../usage/UsageChart.tsx"
import {
  dayText,
  isPossible,
  type Measure,
  measureOf,
  MEASURES,
  OWNERS,
  type Period,
  periodOf,
  RANGES,
  requestOf,
  stepOf,
  STEPS,
  type UsageFilter,
  usageFilterOf,
  usageSearchOf
} from "../usage/UsageFilter.ts"
import { csvOf, ownersOf } from "../usage/UsageSums.ts"
import { UsageTable } from "../usage/UsageTable.tsx"

/** Usage appears within 20 seconds, and a report may read many records. */
const POLL_MILLIS = 30_000

type Change = (change: Partial<UsageFilter>) => void

const Filters = ({ change, filter, names, now, period }: {
  readonly filter: UsageFilter
  readonly change: Change
  readonly names: ReadonlyArray<string>
  readonly period: Period | undefined
  readonly now: number
}) => {
  const [fromField, toField] = [useId(), useId()]
  const { by, endpoint, from, range, to } = filter
  const steps = STEPS.filter(([one]) => period === undefined || isPossible(one, period, now))
  const step = period === undefined ? filter.step : stepOf(filter, period, now)
  return (
    <>
      <Chips
        label="Time"
        choices={RANGES}
        value={range}
        onChoose={(next) =>
          change({
            range: next,
            from: period === undefined ? "" : dayText(period.from),
            to: dayText((period?.to ?? now + 1) - 1)
          })}
      />
      <div className="filters">
        {range === "custom"
          ? (
            <>
              <label htmlFor={fromField}>From</label>
              <input
                id={fromField}
                type="date"
                value={from}
                max={to}
                onChange={(event) => change({ from: event.target.value })}
              />
              <label htmlFor={toField}>Until</label>
              <input id={toField} type="date" value={to} min={from} onChange={(event) => change({ to: event.target.value })} />
            </>
          )
          : null}
        <Select label="By" choices={OWNERS} value={by} onChoose={(next) => change({ by: next })} />
        <EndpointSelect names={names} value={endpoint} onChoose={(next) => change({ endpoint: next })} />
        <Select label="Step" choices={steps} value={step} onChoose={(next) => change({ step: next })} />
      </div>
    </>
  )
}

const PRICES = `cat > prices.json << END
{ "currency": "EUR", "perSecond": { "worker": 0.0001, "gpu": 0.0008 } }
END
STINT_PRICES=prices.json stint serve`

const WithoutPrices = () => (
  <details className="notice">
    <summary>
      Times only: the platform has no prices. With a price file in <code>STINT_PRICES</code>, this page shows costs and budgets.
    </summary>
    <Code label="the commands">{PRICES}</Code>
  </details>
)

const Empty = ({ filter }: { readonly filter: UsageFilter }) => (
  <section className="empty">
    <h2>Nothing ran in this time</h2>
    <p>
      {filter.endpoint === ""
        ? "Choose a longer time, or run a job. It appears here within 20 seconds after its end:"
        : "Choose a longer time or all endpoints, or run a job. It appears here within 20 seconds after its end:"}
    </p>
    <Code label="the command">{`stint run ${filter.endpoint === "" ? "hello" : filter.endpoint} --input '{}'`}</Code>
  </section>
)

const Report = ({ change, filter, known, now, period, report }: {
  readonly report: UsageReport
  readonly filter: UsageFilter
  readonly period: Period
  readonly now: number
  readonly known: ReadonlyArray<string> | undefined
  readonly change: Change
}) => {
  const { budgets, by, currency, rows } = report
  const keys = useKeyNames(by === "key" || budgets.some(({ scope }) => scope === "key"))
  const measure = measureOf(filter, report)
  const owners = ownersOf(report, measure)
  const measures: ReadonlyArray<readonly [Measure, string]> = MEASURES.filter(([one]) => one !== "cost" || currency !== undefined)
  const name = `usage-${dayText(report.from)}-to-${dayText(report.to - 1)}-by-${by}`
  return (
    <>
      {currency === undefined ? <WithoutPrices /> : null}
      <ReachedBudgets budgets={budgets} keys={keys} />
      {rows.length === 0 ? <Empty filter={filter} /> : (
        <>
          <Chips label="Chart" choices={measures} value={measure} onChoose={(one) => change({ measure: one })} />
          <UsageChart
            key={`${measure} ${by}`}
            report={report}
            step={stepOf(filter, period, now)}
            measure={measure}
            owners={owners}
            keys={keys}
          />
          <div className="list-head">
            <span className="muted">Days begin at 00:00 UTC. Times are hours, minutes and seconds.</span>
            <div className="actions">
              <Download name={`${name}.csv`} type="text/csv" text={() => csvOf(report)}>Download CSV</Download>
              <Download name={`${name}.json`} type="application/json" text={() => `${JSON.stringify(report, null, 2)}\n`}>
                Download JSON
              </Download>
            </div>
          </div>
          <UsageTable report={report} owners={owners} measure={measure} keys={keys} known={known} />
        </>
      )}
      {budgets.length === 0 ? null : <Budgets budgets={budgets} currency={currency ?? ""} keys={keys} known={known} />}
    </>
  )
}

const OfPeriod = ({ change, filter, known, now, period }: {
  readonly filter: UsageFilter
  readonly period: Period
  readonly now: number
  readonly known: ReadonlyArray<string> | undefined
  readonly change: Change
}) => {
  const request = requestOf(filter, period, now)
  const query = useQuery({
    queryKey: ["usage", request],
    queryFn: ({ signal }) => usage(request, signal),
    refetchInterval: usePoll(POLL_MILLIS)
  })
  return (
    <Loaded query={query} rows={8}>
      {(report) => <Report report={report} filter={filter} period={period} now={now} known={known} change={change} />}
    </Loaded>
  )
}

const UsagePage = () => {
  const filter = usageFilterOf(useSearch({ strict: false }))
  const navigate = useNavigate()
  const now = useHour()
  const overview = useQuery({ queryKey: ["overview"], queryFn: ({ signal }) => Api.overview(signal), staleTime: 60_000 })
  const known = overview.data?.endpoints.map(({ id }) => id)
  const change: Change = (next) => {
    void navigate({ to: "/console/usage", search: usageSearchOf(usageFilterOf({ ...filter, ...next })), replace: true })
  }
  const found = periodOf(filter, now)
  const period = "period" in found ? found.period : undefined
  return (
    <>
      <h1>Usage</h1>
      <Filters filter={filter} change={change} names={known ?? []} period={period} now={now} />
      {"problem" in found
        ? <p className="notice warn" role="status">{found.problem}</p>
        : <OfPeriod filter={filter} period={found.period} now={now} known={known} change={change} />}
    </>
  )
}

export default UsagePage

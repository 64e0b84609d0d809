/**
 * The last minutes of an endpoint, live: its queue, throughput, waits, runs, worker starts and workers on one time axis.
 */
import type { EndpointHistory } from "@stint/contract/HistoryApi"
import { useQuery } from "@tanstack/react-query"
import { useState } from "react"
import * as Api from "../api/Api.ts"
import { history } from "../api/History.ts"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { rateText } from "../endpoints/Forecast.ts"
import { clockTime, count, duration } from "../format/Format.ts"
import { usePoll } from "../live/Connection.ts"
import { Chips } from "../ui/Choices.tsx"
import { Loaded } from "../ui/Loaded.tsx"
import { sampleAt, type Series, withValues } from "./Plot.ts"
import { type Marker, TimeChart } from "./TimeChart.tsx"

const SPANS = [["5", "5 min"], ["15", "15 min"], ["60", "1 h"]] as const

/** The platform takes a sample every five seconds. */
const STEP_MILLIS = 5_000

const MINUTE = 60_000

/** `0.4 /s`. */
const rate = (value: number): string => `${rateText(value)} /s`

/** Axis lines at whole milliseconds, seconds or minutes. */
const timeUnit = (largest: number): number => largest >= 120_000 ? 60_000 : largest >= 2_000 ? 1_000 : 1

const percentiles = ({ p50, p90, p99 }: EndpointHistory["waits"]): ReadonlyArray<Series> => [
  { name: "P50", tone: 0, values: p50 },
  { name: "P90", tone: 3, values: p90 },
  { name: "P99", tone: 4, values: p99 }
]

/** The marked releases of the endpoint. Keys without `deploy` do not see them. */
const useReleases = (endpoint: string): ReadonlyArray<Marker> => {
  const mayRead = permits(useSession(), "deploy")
  const { data } = useQuery({
    queryKey: ["releases", endpoint],
    queryFn: ({ signal }) => Api.releases(endpoint, signal),
    enabled: mayRead,
    staleTime: 30_000
  })
  return (data?.releases ?? []).map(({ createdAt, number }) => ({ at: createdAt, text: `Release ${number}` }))
}

/** What the chart cannot show, so that a missing hour does not look like an idle one. */
const Note = ({ from, history: { shared, since } }: { readonly history: EndpointHistory; readonly from: number }) => {
  const parts = [
    ...(since === null
      ? ["The first sample arrives within ten seconds."]
      : since > from
      ? [`Samples since ${clockTime(since).slice(0, 8)}, when the platform started: they are in memory only.`]
      : []),
    ...(shared ? ["Throughput, waits and starts of the node that serves this page; queue and workers of all nodes."] : [])
  ]
  return parts.length === 0 ? null : <p className="muted">{parts.join(" ")}</p>
}

const Charts = ({ history, minutes, releases }: {
  readonly history: EndpointHistory
  readonly minutes: number
  readonly releases: ReadonlyArray<Marker>
}) => {
  const [picked, setPicked] = useState<number>()
  const { at, starts, workers } = history
  const to = at.at(-1) ?? Date.now()
  // A platform that has just started does not show an empty chart.
  const from = Math.max(to - minutes * MINUTE, Math.min((history.since ?? to) - STEP_MILLIS, to - MINUTE))
  const span = { from, to }
  const last = at.length - 1
  const chosen = picked === undefined || picked < span.from ? last : sampleAt(at, picked)
  const choose = (time: number) => setPicked(time >= (at.at(-2) ?? to) ? undefined : time)
  const shared = {
    at,
    span,
    chosen,
    onChoose: choose,
    markers: releases.filter((release) => release.at > span.from && release.at <= span.to)
  }
  const time = at[chosen]
  return (
    <>
      {/* On a phone, the charts scroll sideways. */}
      <div className="small-charts" role="group" aria-label="Charts" tabIndex={0}>
        <TimeChart
          {...shared}
          title="Queue"
          kind="lines"
          series={[
            { name: "Waiting", tone: 0, values: history.waiting },
            { name: "Running", tone: 1, values: history.running },
            { name: "Delayed", tone: 4, values: history.delayed }
          ]}
          format={count}
          whole
        />
        <TimeChart
          {...shared}
          title="Jobs per second"
          kind="lines"
          series={[
            { name: "Arrived", tone: 0, values: history.submitted },
            { name: "Completed", tone: 1, values: history.completed },
            { name: "Failed", tone: 2, values: history.failed }
          ]}
          format={rate}
        />
        <TimeChart
          {...shared}
          title="Workers"
          kind="stack"
          series={withValues([
            { name: "Running", tone: 0, values: workers.running },
            { name: "Idle", tone: 1, values: workers.idle },
            { name: "Starting", tone: 2, values: workers.initializing },
            { name: "Draining", tone: 3, values: workers.draining },
            { name: "Failing", tone: 4, values: workers.unhealthy.map((value, index) => value + (workers.throttled[index] ?? 0)) }
          ])}
          format={count}
          whole
        />
        <TimeChart
          {...shared}
          title="Wait before a worker took the job"
          empty="No worker has taken a job in this time."
          kind="lines"
          series={percentiles(history.waits)}
          format={duration}
          unit={timeUnit}
        />
        <TimeChart
          {...shared}
          title="Run time"
          empty="No job has ended a run in this time."
          kind="lines"
          series={percentiles(history.executions)}
          format={duration}
          unit={timeUnit}
        />
        <TimeChart
          {...shared}
          title="Worker starts, by part"
          empty="No worker has started in this time."
          kind="stack"
          series={withValues([
            { name: "Pull", tone: 4, values: starts.pull },
            { name: "Create", tone: 0, values: starts.create },
            { name: "Start", tone: 1, values: starts.start },
            { name: "Setup", tone: 2, values: starts.setup },
            { name: "Prepare", tone: 3, values: starts.prepare }
          ])}
          format={duration}
          unit={timeUnit}
        />
      </div>
      {time === undefined
        ? null
        : (
          <div className="charts-time">
            <input
              type="range"
              className="chart-slider"
              min={0}
              max={last}
              value={chosen}
              aria-label="Time"
              aria-valuetext={`${clockTime(time).slice(0, 8)}: ${history.waiting[chosen]} waiting, ${
                rate(history.submitted[chosen] ?? 0)
              } arrived, ${rate(history.completed[chosen] ?? 0)} completed, ${rate(history.failed[chosen] ?? 0)} failed`}
              onChange={(event) => choose(at[Number(event.target.value)] ?? to)}
            />
            <span className="muted">
              Values at <strong>{clockTime(time).slice(0, 8)}</strong>
              {picked === undefined || chosen === last ? ", the newest" : ""}
            </span>
          </div>
        )}
      <Note history={history} from={to - minutes * MINUTE} />
    </>
  )
}

/** The charts of an endpoint. */
export const EndpointCharts = ({ endpoint }: { readonly endpoint: string }) => {
  const [minutes, setMinutes] = useState<(typeof SPANS)[number][0]>("15")
  const releases = useReleases(endpoint)
  const query = useQuery({
    queryKey: ["history", endpoint, minutes],
    queryFn: ({ signal }) => history(endpoint, Number(minutes), signal),
    refetchInterval: usePoll(STEP_MILLIS)
  })
  return (
    <section aria-labelledby="charts" className="charts">
      <div className="heading">
        <h2 id="charts">Charts</h2>
        <div className="actions">
          <Chips label="Time span" choices={SPANS} value={minutes} onChoose={setMinutes} />
        </div>
      </div>
      <Loaded query={query} rows={6}>
        {(found) => <Charts key={minutes} history={found} minutes={Number(minutes)} releases={releases} />}
      </Loaded>
    </section>
  )
}

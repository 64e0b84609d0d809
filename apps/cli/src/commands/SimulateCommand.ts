/**
 * `stint simulate` runs an endpoint's past traffic against other settings of its workers, in simulated time
 * (docs/operations/scaling.md#try-other-settings).
 */
import { ScalingPolicy } from "@stint/autoscaler"
import { optimum, simulate, type SimulationResult } from "@stint/autoscaler/Simulation"
import { Scaler, WorkerLimits } from "@stint/contract/Endpoint"
import { timeText } from "@stint/contract/UsageText"
import { CliError, Command, Flag } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import * as Traffic from "../simulate/Traffic.ts"
import { duration, endpoint, json, since, toMillis } from "./SharedFlags.ts"

/** The default start of the period: a day ago. Milliseconds. */
const DEFAULT_PERIOD_MILLIS = 24 * 60 * 60 * 1000

/** The maximum number of combinations of settings. */
const MAX_ROWS = 64

/** The maximum number of jobs in a simulation. */
const MAX_SIMULATED = 200_000

/** Settings of an endpoint's workers. */
interface Settings {
  readonly limits: Pick<WorkerLimits, "min" | "max" | "idleTimeoutMs">
  readonly scaler: Scaler
}

/** The waits of all jobs. Milliseconds. */
interface Waits {
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly max: number
}

interface Row extends Settings, Omit<SimulationResult, "waits"> {
  /** Whether the endpoint has these settings now. */
  readonly isPresent: boolean
  readonly waits: Waits
}

interface Simulated {
  readonly endpoint: string
  readonly jobs: number
  /** The times of the first and of the last job, in milliseconds since 1970. */
  readonly from: number
  readonly to: number
  /** The period has more jobs than were read. */
  readonly isCut: boolean
  readonly load: number
  /** `measuredJobs` is absent if the caller gave the time. */
  readonly coldStart: { readonly millis: number; readonly measuredJobs?: number }
  /** The sum of the jobs' run times. Milliseconds. */
  readonly executionMillis: number
  readonly rows: ReadonlyArray<Row>
  /** The minimum with which no job waits. */
  readonly optimum: { readonly starts: number; readonly workerMillis: number }
}

const quantile = (sorted: ReadonlyArray<number>, q: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0

const waitsOf = (waits: ReadonlyArray<number>): Waits => {
  const sorted = waits.toSorted((one, other) => one - other)
  return { p50: quantile(sorted, 0.5), p90: quantile(sorted, 0.9), p99: quantile(sorted, 0.99), max: sorted.at(-1) ?? 0 }
}

/** The values of a flag, or the present one. */
const orNow = <A>(values: ReadonlyArray<A>, now: A): ReadonlyArray<A> => values.length === 0 ? [now] : values

const isScaler = Schema.is(Scaler)
const areLimits = Schema.is(WorkerLimits)

const isSame = (one: Settings, other: Settings): boolean =>
  one.limits.min === other.limits.min && one.limits.max === other.limits.max &&
  one.limits.idleTimeoutMs === other.limits.idleTimeoutMs &&
  one.scaler.type === other.scaler.type && one.scaler.value === other.scaler.value

const seconds = (millis: number): string => `${(millis / 1000).toFixed(millis < 10_000 ? 2 : 1)} s`

const settingsText = ({ limits, scaler }: Settings): string =>
  [
    `min ${limits.min}`,
    `max ${limits.max}`,
    `idle ${limits.idleTimeoutMs / 1000} s`,
    scaler.type === "QUEUE_DELAY" ? `another after ${scaler.value} s` : `one for ${scaler.value} jobs`
  ].join(", ")

const dateText = (millis: number): string => new Date(millis).toISOString().slice(0, 16).replace("T", " ")

const format = (result: Simulated): string => {
  const { coldStart, endpoint, executionMillis, isCut, jobs, load, rows } = result
  const { measuredJobs } = coldStart
  const row = (name: string, { peak, starts, waits, workerMillis }: Pick<Row, "peak" | "starts" | "waits" | "workerMillis">) => [
    name,
    String(starts),
    ...[waits.p50, waits.p90, waits.p99].map(seconds),
    timeText(workerMillis / 1000),
    workerMillis === 0 ? "-" : `${Math.round(100 * executionMillis / workerMillis)} %`,
    String(peak)
  ]
  return [
    `${jobs} jobs of ${endpoint} from ${dateText(result.from)} to ${dateText(result.to)} UTC${
      load === 1 ? "" : `, at ${load} times their number`
    }${isCut ? `; the newest ${Traffic.MAX_JOBS} of the period` : ""}`,
    `A cold start takes ${seconds(coldStart.millis)}${
      measuredJobs === undefined
        ? ""
        : `, the median of ${measuredJobs} ${measuredJobs === 1 ? "job that" : "jobs that each"} started a worker`
    }.`,
    "",
    Output.table([
      ["SETTINGS", "COLD STARTS", "WAIT P50", "P90", "P99", "WORKER TIME", "BUSY", "PEAK"],
      ...rows.map((one) => row(one.isPresent ? `now: ${settingsText(one)}` : settingsText(one), one)),
      [
        "optimum, knows all jobs",
        String(result.optimum.starts),
        "0 s",
        "0 s",
        "0 s",
        timeText(result.optimum.workerMillis / 1000),
        "",
        ""
      ]
    ]),
    "",
    "Simulated with the platform's scaling rules: each worker runs one job at a time, and no start fails."
  ].join("\n")
}

const positive = (name: string, description: string) =>
  Flag.Finite(name).pipe(
    Flag.withDescription(description),
    Flag.mapEffect((value) =>
      value > 0
        ? Effect.succeed(value)
        : Effect.fail(
          new CliError.InvalidValue({ option: name, value: String(value), expected: "a number above 0", kind: "flag" })
        )
    )
  )

const workers = (name: string, description: string, minimum: number) =>
  Flag.Int(name).pipe(
    Flag.withDescription(description),
    Flag.mapEffect((value) =>
      value >= minimum && value <= 10_000
        ? Effect.succeed(value)
        : Effect.fail(
          new CliError.InvalidValue({ option: name, value: String(value), expected: `${minimum} to 10000`, kind: "flag" })
        )
    ),
    Flag.atLeast(0)
  )

/** `stint simulate`. */
export const command = Command.make(
  "simulate",
  {
    endpoint,
    since: since("since").pipe(Flag.withDescription("Start of the traffic: 24h, 7d, or 2026-11-22; default 24h"), Flag.optional),
    until: since("until").pipe(Flag.withDescription("End; default now"), Flag.optional),
    load: positive("load", "Simulate this many times as many jobs, e.g. 2 or 0.5; default 1").pipe(Flag.withDefault(1)),
    coldStart: duration("cold-start").pipe(
      Flag.withDescription("How long a worker needs to start; default: the median of jobs that started a worker"),
      Flag.optional
    ),
    workersMin: workers("workers-min", "Workers that always run; repeatable", 0),
    workersMax: workers("workers-max", "Maximum number of workers; repeatable", 1),
    idleTimeout: duration("idle-timeout").pipe(
      Flag.withDescription("How long an idle worker keeps running; repeatable"),
      Flag.atLeast(0)
    ),
    scaleAfter: duration("scale-after").pipe(
      Flag.withDescription("Add a worker while a job has waited longer than this; repeatable"),
      Flag.atLeast(0)
    ),
    jobsPerWorker: positive("jobs-per-worker", "One worker for every N jobs; repeatable").pipe(Flag.atLeast(0)),
    json
  },
  Effect.fnUntraced(function*({ coldStart, endpoint, json, load, until, ...flags }) {
    const { scaler, workers } = yield* call((api) => api.control.getEndpoint({ params: { endpoint } }))
    const now: Settings = { limits: workers, scaler }
    const scalers: ReadonlyArray<Scaler> = [
      ...flags.scaleAfter.map((after) => ({ type: "QUEUE_DELAY" as const, value: Duration.toSeconds(after) })),
      ...flags.jobsPerWorker.map((value) => ({ type: "REQUEST_COUNT" as const, value }))
    ]
    const others = orNow(flags.workersMin, workers.min).flatMap((min) =>
      orNow(flags.workersMax, workers.max).flatMap((max) =>
        orNow(flags.idleTimeout.map(toMillis), workers.idleTimeoutMs).flatMap((idleTimeoutMs) =>
          orNow(scalers, scaler).map((scaler): Settings => ({ limits: { min, max, idleTimeoutMs }, scaler }))
        )
      )
    ).filter((settings) => settings.limits.min <= settings.limits.max && !isSame(settings, now))
    const refused = others.find(({ limits, scaler }) => !areLimits(limits) || !isScaler(scaler))
    if (refused !== undefined) {
      return yield* new CliFailure({
        message: `An endpoint cannot have these settings: ${settingsText(refused)}.`,
        hint: "An idle timeout is at most 1h, --scale-after 100ms to 1h, and --jobs-per-worker 1 to 100000."
      })
    }
    const all = [now, ...others].filter(({ limits }) => limits.max > 0)
    if (all.length > MAX_ROWS) {
      return yield* new CliFailure({
        message: `${all.length} combinations of settings are more than ${MAX_ROWS}.`,
        hint: "Give fewer values at a time."
      })
    }
    if (all.length === 0) {
      return yield* new CliFailure({
        message: `Endpoint ${endpoint} is paused, so its jobs would wait forever.`,
        hint: `Simulate a maximum: stint simulate ${endpoint} --workers-max 1`
      })
    }
    const traffic = yield* Traffic.read(endpoint, {
      since: yield* Option.match(flags.since, {
        onNone: () => Effect.map(Clock.currentTimeMillis, (now) => now - DEFAULT_PERIOD_MILLIS),
        onSome: Effect.succeed
      }),
      until: Option.getOrUndefined(until)
    })
    const measured = Option.isSome(coldStart)
      ? { millis: toMillis(coldStart.value) }
      : yield* Effect.flatMap(
        Traffic.coldStartOf(endpoint, traffic),
        Option.match({
          onNone: () =>
            Effect.fail(
              new CliFailure({
                message: `None of the jobs that waited longest shows how long a worker of ${endpoint} takes to start.`,
                hint: `Give the time, for example --cold-start 10s, or measure it: stint bench cold-start ${endpoint}`
              })
            ),
          onSome: ({ count, millis }) => Effect.succeed({ millis, measuredJobs: count })
        })
      )
    const count = Math.floor(traffic.arrivals.length * load)
    if (count > MAX_SIMULATED) {
      return yield* new CliFailure({
        message: `${count} jobs are more than ${MAX_SIMULATED}.`,
        hint: "Choose a shorter period or a lower --load."
      })
    }
    const arrivals = Traffic.atLoad(traffic.arrivals, load)
    const rows = all.map(({ limits, scaler }): Row => {
      const { peak, starts, waits, workerMillis } = simulate({
        arrivals,
        limits,
        scaler,
        coldStart: measured.millis,
        decide: ScalingPolicy.decide
      })
      const isPresent = isSame({ limits, scaler }, now)
      return { limits, scaler, isPresent, peak, starts, workerMillis, waits: waitsOf(waits) }
    })
    const result: Simulated = {
      endpoint,
      jobs: traffic.arrivals.length,
      from: traffic.from,
      to: traffic.from + (traffic.arrivals.at(-1)?.at ?? 0),
      isCut: traffic.isCut,
      load,
      coldStart: measured,
      executionMillis: arrivals.reduce((sum, { duration }) => sum + duration, 0),
      rows,
      optimum: optimum(arrivals, measured.millis)
    }
    yield* Output.print(json, result, format)
  })
).pipe(
  Command.withDescription("Simulate an endpoint's past traffic with other numbers of workers, and compare waits and worker time"),
  Command.withExamples([
    {
      command: "stint simulate resize --workers-max 4 --workers-max 8 --idle-timeout 60s",
      description: "The last day with two other settings"
    },
    { command: "stint simulate resize --since 7d --load 2", description: "The last week with twice as many jobs" }
  ])
)

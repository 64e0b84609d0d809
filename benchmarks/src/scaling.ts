/**
 * Compares autoscalers in simulated time: cold starts, waits and worker time for five shapes of traffic. Takes a few seconds and uses only
 * the CPU. `--seed N` changes the arrivals.
 */
import { optimum, type Scaler, simulate, type SimulationOptions } from "@stint/autoscaler/Simulation"
import process from "node:process"
import { parseArgs } from "node:util"
import { formatFigure, tableOf } from "./Rounds.ts"
import { traces } from "./scaling/ArrivalTraces.ts"
import { formulas, knative, stint } from "./scaling/Scalers.ts"

const { seed, max } =
  parseArgs({ options: { seed: { type: "string", default: "1" }, max: { type: "string", default: "50" } } }).values

const limits = { min: 0, max: Number(max), idleTimeoutMs: 5_000 }
const DELAY: SimulationOptions["scaler"] = { type: "QUEUE_DELAY", value: 4 }
const COUNT: SimulationOptions["scaler"] = { type: "REQUEST_COUNT", value: 1 }

const scalers: ReadonlyArray<{
  readonly name: string
  readonly scaler: SimulationOptions["scaler"]
  readonly make: () => Scaler
}> = [
  { name: "Stint, QUEUE_DELAY 4 s (default)", scaler: DELAY, make: () => stint },
  { name: "formula, QUEUE_DELAY 4 s", scaler: DELAY, make: () => formulas },
  { name: "Stint, REQUEST_COUNT 1", scaler: COUNT, make: () => stint },
  { name: "formula, REQUEST_COUNT 1", scaler: COUNT, make: () => formulas },
  { name: "Knative, its defaults", scaler: COUNT, make: knative }
]

const quantile = (values: ReadonlyArray<number>, q: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))] ?? Number.NaN

const seconds = (millis: number): string => formatFigure(millis / 1_000)

for (const coldStart of [100, 8_000]) {
  for (const { arrivals, name } of traces(Number(seed))) {
    const best = optimum(arrivals, coldStart)
    const rows = scalers.map((one) => {
      const { peak, starts, waits, workerMillis } = simulate({
        arrivals,
        limits,
        scaler: one.scaler,
        coldStart,
        decide: one.make()
      })
      return [
        one.name,
        String(starts),
        seconds(quantile(waits, 0.5)),
        seconds(quantile(waits, 0.99)),
        seconds(workerMillis),
        `${(workerMillis / best.workerMillis).toFixed(2)}x`,
        String(peak)
      ]
    })
    const header = ["", "cold starts", "wait p50 s", "wait p99 s", "worker s", "of optimum", "peak"]
    const ideal = ["optimum, knows the future", String(best.starts), "0", "0", seconds(best.workerMillis), "1.00x", ""]
    process.stdout.write(
      `${name}: ${arrivals.length} jobs, a cold start of ${coldStart / 1_000} s\n\n${tableOf([header, ...rows, ideal])}\n\n`
    )
  }
}

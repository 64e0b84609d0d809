/**
 * Synthetic arrivals for the scaling simulation. The same seed gives the same arrivals.
 */
import type { Arrival } from "@stint/autoscaler/Simulation"
import { SeededRandom } from "@stint/store-testing"

export interface ArrivalTrace {
  readonly name: string
  readonly arrivals: ReadonlyArray<Arrival>
}

type Random = () => number

const MINUTE = 60_000

/** The length of every trace. Milliseconds. */
const TRACE_MILLIS = 60 * MINUTE

/** The longest run time of a job. Milliseconds. */
const MAX_DURATION = 5 * MINUTE

const exponential = (random: Random, mean: number): number => -mean * Math.log(1 - random())

const normal = (random: Random): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())

/** A log-normal run time, capped at five minutes. */
const duration = (random: Random, median: number, sigma: number): number =>
  Math.min(MAX_DURATION, Math.max(1, Math.round(median * Math.exp(sigma * normal(random)))))

const byTime = (arrivals: Array<Arrival>): ReadonlyArray<Arrival> => arrivals.sort((a, b) => a.at - b.at)

/** Arrivals of a Poisson process whose rate (jobs per second) changes over time, by thinning at `peak`. */
const poisson = (random: Random, peak: number, rate: (at: number) => number): ReadonlyArray<Arrival> => {
  const arrivals: Array<Arrival> = []
  for (let at = exponential(random, 1_000 / peak); at < TRACE_MILLIS; at += exponential(random, 1_000 / peak)) {
    if (random() < rate(at) / peak) arrivals.push({ at: Math.round(at), duration: duration(random, 1_500, 0.7) })
  }
  return arrivals
}

/** About one job every minute, and 60 jobs within one second every five minutes. */
const bursts = (random: Random): ReadonlyArray<Arrival> => {
  const arrivals = [...poisson(random, 1 / 60, () => 1 / 60)]
  for (let start = 2 * MINUTE; start < TRACE_MILLIS; start += 5 * MINUTE) {
    for (let n = 0; n < 60; n++) {
      arrivals.push({ at: Math.round(start + 1_000 * random()), duration: duration(random, 1_500, 0.7) })
    }
  }
  return byTime(arrivals)
}

/**
 * The shape of production traces of serverless functions: long silences, clusters of jobs (a hyperexponential process: a job is followed by
 * another after 0.4 s on average, or in 8 % of cases after 45 s), and run times over five orders of magnitude.
 */
const heavyTailed = (random: Random): ReadonlyArray<Arrival> => {
  const arrivals: Array<Arrival> = []
  let at = 0
  while ((at += exponential(random, random() < 0.08 ? 45_000 : 400)) < TRACE_MILLIS) {
    arrivals.push({ at: Math.round(at), duration: duration(random, 700, 1.6) })
  }
  return arrivals
}

/** All traces. Each lasts an hour. */
export const traces = (seed: number): ReadonlyArray<ArrivalTrace> => {
  const random = SeededRandom.seededRandom(seed)
  return [
    { name: "steady: 1 job/s", arrivals: poisson(random, 1, () => 1) },
    { name: "bursts: 60 jobs every 5 min", arrivals: bursts(random) },
    {
      name: "diurnal: 0 to 2 jobs/s, a day in an hour",
      arrivals: poisson(random, 2, (at) => 1 - Math.cos((2 * Math.PI * at) / TRACE_MILLIS))
    },
    {
      name: "flash crowd: 0.1 to 8 jobs/s at once",
      arrivals: poisson(
        random,
        8,
        (at) => at < 20 * MINUTE ? 0.1 : Math.max(0.1, 8 * Math.exp(-(at - 20 * MINUTE) / (4 * MINUTE)))
      )
    },
    { name: "heavy tails: clusters and silences", arrivals: heavyTailed(random) }
  ]
}

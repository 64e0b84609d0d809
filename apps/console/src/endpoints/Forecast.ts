/**
 * Whether a queue empties or grows, from the arrivals and the ended jobs of the last minute.
 */
import type { EndpointRates } from "@stint/contract/HistoryApi"
import { duration } from "../format/Format.ts"

/** `4.1`, `0.02`, `120`; `0` only for no jobs at all. Per second. */
export const rateText = (value: number): string =>
  value >= 10 ? String(Math.round(value)) : value >= 1 ? value.toFixed(1) : String(Number(value.toPrecision(1)))

/** The smallest difference that is more than chance: three jobs in a minute. */
const LEAST_DIFFERENCE = 0.05

/** `empty in 4 min`, `grows by 2.1 /s`, `steady`, or undefined when there is nothing to say. */
export const forecastOf = (
  waiting: number,
  { arrivals, ended }: Pick<EndpointRates, "arrivals" | "ended">
): string | undefined => {
  if (waiting === 0) return undefined
  const surplus = ended - arrivals
  if (surplus >= LEAST_DIFFERENCE) return `empty in ${duration(waiting / surplus * 1_000)}`
  if (surplus <= -LEAST_DIFFERENCE) return `grows by ${rateText(-surplus)} /s`
  return arrivals === 0 && ended === 0 ? undefined : "steady"
}

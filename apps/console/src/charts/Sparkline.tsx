/**
 * The last half hour of an endpoint in one line: a bar for the ended jobs of each minute, with the failed ones at its foot.
 */
import type { EndpointRates } from "@stint/contract/HistoryApi"
import { counted } from "../format/Format.ts"

const MINUTES = 30
const WIDTH = 4
const HEIGHT = 24

/** A job in a minute with many is still visible. */
const LEAST = 1.5

/** The bars. The text gives the sums to readers who cannot see them. */
export const Sparkline = ({ rates: { endedJobs, failedJobs } }: { readonly rates: EndpointRates }) => {
  const most = Math.max(1, ...endedJobs)
  const first = MINUTES - endedJobs.length
  const sum = (values: ReadonlyArray<number>) => values.reduce((total, value) => total + value, 0)
  const text = `${counted(sum(endedJobs), "job")} ended in 30 min, ${sum(failedJobs)} failed; at most ${
    Math.max(0, ...endedJobs)
  } per minute`
  const heightOf = (value: number) => value === 0 ? 0 : Math.max(LEAST, HEIGHT * value / most)
  const bars = (values: ReadonlyArray<number>) =>
    values.flatMap((value, index) =>
      value === 0 ? [] : [`M${(first + index) * WIDTH} ${HEIGHT}v${-heightOf(value)}h${WIDTH - 1}v${heightOf(value)}Z`]
    ).join("")
  return (
    <svg className="sparkline" viewBox={`0 0 ${MINUTES * WIDTH} ${HEIGHT}`} role="img" aria-label={text}>
      <title>{text}</title>
      <path className="spark-line" d={`M0 ${HEIGHT}H${MINUTES * WIDTH}`} />
      <path className="spark-ended" d={bars(endedJobs)} />
      <path className="spark-failed" d={bars(failedJobs)} />
    </svg>
  )
}

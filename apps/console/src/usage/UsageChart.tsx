/**
 * Usage over time.
 */
import type { UsageReport } from "@stint/contract/UsageApi"
import { count } from "../format/Format.ts"
import { axisOf } from "../ui/ChartAxis.ts"
import { StackedBars } from "../ui/StackedBars.tsx"
import { type KeyNames, ownerName } from "./OwnerNames.ts"
import type { ChartStep, Measure } from "./UsageFilter.ts"
import { amountText, chartOf, labelsOf, type Owner, stepText } from "./UsageSums.ts"

/** The unit of the axis labels: hours for long durations. */
const unitOf = (measure: Measure, largest: number): readonly [size: number, name: string] => {
  if (measure === "cost" || measure === "attempts") return [1, ""]
  return largest >= 7_200 ? [3_600, " h"] : largest >= 120 ? [60, " min"] : [1, " s"]
}

/** The chart of a measure. */
export const UsageChart = ({ keys, measure, owners, report, step }: {
  readonly report: UsageReport
  readonly step: ChartStep
  readonly measure: Measure
  readonly owners: ReadonlyArray<Owner>
  readonly keys: KeyNames
}) => {
  const { series, steps } = chartOf(report, step, measure, owners)
  if (series.length === 0) return <p className="empty">Nothing to draw: each value is 0.</p>
  const largest = Math.max(...steps.map((_, column) => series.reduce((sum, { values }) => sum + (values[column] ?? 0), 0)))
  const [unit, unitName] = unitOf(measure, largest)
  return (
    <StackedBars
      label={`${measure} by ${report.by} over time`}
      steps={steps.map((start) => `${stepText(step, start)} UTC`)}
      labels={labelsOf(step, steps)}
      parts={series.map(({ owner, values }) => ({
        id: owner?.id ?? "others",
        name: owner === undefined ? "all others" : ownerName(owner.row, report.by, keys),
        values
      }))}
      axis={axisOf(largest, unit, measure === "attempts")}
      tick={(value) =>
        measure === "attempts" ? count(value) : `${Number((value / unit).toPrecision(6)).toLocaleString("en")}${unitName}`}
      format={(value) => amountText(value, measure, report.currency)}
    />
  )
}

/**
 * A small chart over time. Several of them share a time axis and the chosen time, whose values each legend shows.
 */
import type { PointerEvent } from "react"
import { clockTime } from "../format/Format.ts"
import { axisOf } from "../ui/ChartAxis.ts"
import { HEIGHT, largestOf, linePath, type Series, type Span, stackPaths, WIDTH, xOf } from "./Plot.ts"

/** A vertical line at a time. */
export interface Marker {
  readonly at: number
  readonly text: string
}

/** The chart. `unit` is the size of one unit of the axis labels. */
export const TimeChart = ({ at, chosen, empty, format, kind, markers, onChoose, series, span, title, unit, whole = false }: {
  readonly title: string
  readonly kind: "lines" | "stack"
  readonly at: ReadonlyArray<number>
  readonly series: ReadonlyArray<Series>
  readonly span: Span
  /** The index of the sample whose values the legend shows. */
  readonly chosen: number
  readonly onChoose: (time: number) => void
  readonly format: (value: number) => string
  readonly unit?: ((largest: number) => number) | undefined
  readonly whole?: boolean
  /** Shown instead of a chart without values. */
  readonly empty?: string
  readonly markers: ReadonlyArray<Marker>
}) => {
  const largest = largestOf(series, kind === "stack")
  const { ticks, top } = axisOf(largest, unit?.(largest) ?? 1, whole, 2)
  const paths = kind === "stack"
    ? stackPaths(at, series, span, top)
    : series.map(({ values }) => linePath(at, values, span, top))
  const point = ({ clientX, currentTarget }: PointerEvent<SVGSVGElement>) => {
    const { left, width } = currentTarget.getBoundingClientRect()
    onChoose(span.from + ((clientX - left) / width) * (span.to - span.from))
  }
  const time = at[chosen]
  return (
    <figure className="small-chart" aria-label={title}>
      <figcaption>{title}</figcaption>
      {empty !== undefined && series.every(({ values }) => values.every((value) => value === null))
        ? <p className="small-empty">{empty}</p>
        : null}
      <div className="small-plot">
        {ticks.map((value) => (
          <span key={value} className="small-tick" style={{ bottom: `${(value / top) * 100}%` }} aria-hidden="true">
            {format(value)}
          </span>
        ))}
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          aria-hidden="true"
          onPointerMove={point}
          onPointerDown={point}
        >
          {ticks.map((value) => <path key={value} className="chart-line" d={`M0 ${HEIGHT * (1 - value / top)}H${WIDTH}`} />)}
          {markers.map((marker) => (
            <path key={marker.at} className="chart-marker" d={`M${xOf(marker.at, span)} 0V${HEIGHT}`}>
              <title>{marker.text}</title>
            </path>
          ))}
          {paths.map((path, index) => (
            <path key={series[index]?.name} className={`${kind === "stack" ? "area" : "line"}-${series[index]?.tone}`} d={path} />
          ))}
          {time === undefined ? null : <path className="chart-cursor" d={`M${xOf(time, span)} 0V${HEIGHT}`} />}
        </svg>
        <span className="small-from" aria-hidden="true">{clockTime(span.from).slice(0, 5)}</span>
        <span className="small-to" aria-hidden="true">{clockTime(span.to).slice(0, 5)}</span>
      </div>
      <ul className="small-legend">
        {series.map(({ name, tone, values }) => {
          const value = values[chosen] ?? null
          return (
            <li key={name}>
              <svg className="swatch" viewBox="0 0 14 10" aria-hidden="true">
                {kind === "stack"
                  ? <path className={`area-${tone}`} d="M0 0h10v10H0Z" />
                  : <path className={`line-${tone}`} d="M0 5H14" />}
              </svg>
              {name} <strong>{value === null ? "-" : format(value)}</strong>
            </li>
          )
        })}
      </ul>
    </figure>
  )
}

/**
 * A chart of stacked bars over time. The slider below the bars chooses one of them by keyboard, touch or mouse, and the legend shows its
 * values; a click on a name in the legend shows only that part. So readers who cannot distinguish the colours can read every value and part.
 */
import { type PointerEvent, useState } from "react"
import type { Axis } from "./ChartAxis.ts"

/** A part of each bar. */
export interface BarPart {
  readonly id: string
  readonly name: string
  readonly values: ReadonlyArray<number>
}

/** Pixels. */
const HEIGHT = 220

/** The minimum height of a part that is not zero, so that it is visible. */
const LEAST = 1

/** With more bars, there is no gap between them: it would be a fraction of a pixel, and differ from bar to bar. */
const MOST_WITH_GAP = 150

/** The number of part colours in style.css. The last colour is for all other parts. */
const COLOURS = 6

const colour = (index: number) => `part-${Math.min(index, COLOURS)}`

/** A text below a bar. */
export interface BarLabel {
  readonly column: number
  readonly text: string
}

/** The chart. `steps` are the names of the bars. A phone shows only every second label. */
export const StackedBars = ({ axis, format, label, labels, parts, steps, tick }: {
  readonly label: string
  readonly steps: ReadonlyArray<string>
  readonly labels: ReadonlyArray<BarLabel>
  readonly parts: ReadonlyArray<BarPart>
  readonly axis: Axis
  readonly tick: (value: number) => string
  readonly format: (value: number) => string
}) => {
  const [picked, setPicked] = useState<number>()
  const [alone, setAlone] = useState<string>()
  const last = steps.length - 1
  const chosen = Math.min(picked ?? last, last)
  const width = 100 / steps.length
  const gap = steps.length > MOST_WITH_GAP ? 0 : 0.08
  const y = (value: number) => HEIGHT * (1 - value / axis.top)
  const isShown = ({ id }: BarPart) => alone === undefined || alone === id || !parts.some((one) => one.id === alone)
  const valueOf = (part: BarPart) => part.values[chosen] ?? 0
  const total = format(parts.reduce((sum, part) => sum + valueOf(part), 0))
  const point = ({ clientX, currentTarget }: PointerEvent<SVGSVGElement>) => {
    const { left, width: pixels } = currentTarget.getBoundingClientRect()
    setPicked(Math.max(0, Math.min(last, Math.floor(((clientX - left) / pixels) * steps.length))))
  }
  const bars = steps.flatMap((step, column) => {
    let below = 0
    return parts.filter(isShown).flatMap((part) => {
      const value = part.values[column] ?? 0
      if (value === 0) return []
      const base = y(below)
      below += value
      const height = Math.max(LEAST, base - y(below))
      return [
        <rect
          key={`${step} ${part.id}`}
          className={colour(parts.indexOf(part))}
          x={`${(column + gap) * width}%`}
          width={`${(1 - 2 * gap) * width}%`}
          y={base - height}
          // A line in the background colour separates parts of the same brightness.
          height={height > 3 ? height - 1 : height}
        />
      ]
    })
  })
  return (
    <figure className="chart" aria-label={label}>
      <div className="chart-plot">
        <svg height={HEIGHT + 24} onPointerMove={point} onPointerDown={point} aria-hidden="true">
          <rect className="chart-column" x={`${chosen * width}%`} width={`${width}%`} y={0} height={HEIGHT} />
          {axis.ticks.map((value) => (
            <g key={value}>
              <line className="chart-line" x1="0" x2="100%" y1={y(value)} y2={y(value)} />
              <text x={-8} y={y(value) + 4} textAnchor="end">{tick(value)}</text>
            </g>
          ))}
          {bars}
          {labels.map(({ column, text }, index) => (
            <text
              key={column}
              className={index % 2 === 1 ? "chart-minor" : undefined}
              x={`${(column + 0.5) * width}%`}
              y={HEIGHT + 18}
              textAnchor="middle"
            >
              {text}
            </text>
          ))}
        </svg>
        <input
          type="range"
          className="chart-slider"
          // The thumb, 16 pixels wide, is below the middle of its bar.
          style={{ marginInline: `calc(${width / 2}% - 8px)`, width: `calc(${100 - width}% + 16px)` }}
          min={0}
          max={last}
          value={chosen}
          aria-label="Time"
          aria-valuetext={`${steps[chosen]}: ${total}. ${
            parts.map((part) => `${part.name} ${format(valueOf(part))}`).join(", ")
          }`}
          onChange={(event) => setPicked(Number(event.target.value))}
        />
      </div>
      <p className="chart-total">
        <strong>{steps[chosen]}</strong> {total}
      </p>
      <ul className="chart-legend" aria-label="Parts">
        {parts.map((part, index) => (
          <li key={part.id}>
            <button
              type="button"
              className={isShown(part) ? "chip" : "chip faded"}
              aria-pressed={alone === part.id}
              title={alone === part.id ? "Show all" : `Show only ${part.name}`}
              onClick={() => setAlone(alone === part.id ? undefined : part.id)}
            >
              <svg className={`swatch ${colour(index)}`} viewBox="0 0 10 10" aria-hidden="true">
                <rect width="10" height="10" rx="2" />
              </svg>
              {part.name} <span className="muted">{format(valueOf(part))}</span>
            </button>
          </li>
        ))}
      </ul>
    </figure>
  )
}

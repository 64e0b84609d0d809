/**
 * Draws the timeline of a job.
 */
import { absolute, duration } from "../format/Format.ts"
import { placeBars, type TimelineBar } from "./JobTimeline.ts"

/** The bars on one axis. The durations are also given as text, so that they can be read without the picture. */
export const Timeline = ({ bars }: { readonly bars: ReadonlyArray<TimelineBar> }) => {
  const places = placeBars(bars)
  return (
    <ol className="timeline" aria-label="Timeline">
      {bars.map((bar, index) => {
        const place = places[index] ?? { left: 0, width: 0 }
        return (
          <li
            key={`${bar.label}-${bar.from}`}
            title={bar.note ?? `${absolute(bar.from)} to ${bar.isOpen ? "now" : absolute(bar.to)}`}
          >
            <span className={bar.isPart === true ? "timeline-label part" : "timeline-label"}>{bar.label}</span>
            <span className="timeline-track" aria-hidden="true">
              <span
                className={`timeline-bar ${bar.kind}${bar.isOpen ? " open" : ""}`}
                style={{ left: `${place.left}%`, width: `${place.width}%` }}
              />
            </span>
            <span className="timeline-time">{duration(bar.to - bar.from)}{bar.isOpen ? " so far" : ""}</span>
          </li>
        )
      })}
    </ol>
  )
}

/**
 * The time zone in which the pages about schedules show times. The choice is stored in this browser.
 */
import { useId, useState } from "react"
import { isZone, localZone } from "../format/Zones.ts"

const KEY = "stint.zone"

/** Shows each schedule in its own time zone. */
const OWN = "own"

const load = (): string => {
  try {
    const stored = window.localStorage.getItem(KEY) ?? OWN
    return stored === OWN || isZone(stored) ? stored : OWN
  } catch {
    return OWN
  }
}

/** The choice: the zone for a schedule, and the field that changes it. */
export const useZone = (): {
  readonly choice: string
  readonly zoneOf: (own: string) => string
  readonly choose: (zone: string) => void
} => {
  const [choice, setChoice] = useState(load)
  const choose = (zone: string) => {
    setChoice(zone)
    try {
      window.localStorage.setItem(KEY, zone)
    } catch {
      // A browser without storage keeps the choice until the user leaves the page.
    }
  }
  return { choice, choose, zoneOf: (own) => choice === OWN ? own : choice }
}

/** The field. `zones`: the time zones of the schedules. */
export const ZoneChoice = ({ choice, choose, zones }: {
  readonly choice: string
  readonly choose: (zone: string) => void
  readonly zones: ReadonlyArray<string>
}) => {
  const field = useId()
  const names = [...new Set([localZone(), "UTC", ...zones, ...(choice === OWN ? [] : [choice])])]
  return (
    <div className="filters">
      <label htmlFor={field}>Times in</label>
      <select id={field} value={choice} onChange={(event) => choose(event.target.value)}>
        <option value={OWN}>the schedule's own zone</option>
        {names.map((name) => <option key={name} value={name}>{name === localZone() ? `${name} (this browser)` : name}</option>)}
      </select>
    </div>
  )
}

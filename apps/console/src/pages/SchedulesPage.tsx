/**
 * Schedules: which endpoint gets a job when, and the outcome of the last firing.
 */
import type { Schedule } from "@stint/contract/Schedule"
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { schedules } from "../api/Schedules.ts"
import { inZone } from "../format/Zones.ts"
import { usePoll } from "../live/Connection.ts"
import { Firing } from "../schedules/Firing.tsx"
import { ScheduleActions } from "../schedules/ScheduleActions.tsx"
import { stateOf, whenText } from "../schedules/ScheduleWords.ts"
import { useZone, ZoneChoice } from "../schedules/ZoneChoice.tsx"
import { Loaded } from "../ui/Loaded.tsx"
import { Badge } from "../ui/Status.tsx"
import { ActionsHead } from "../ui/Table.tsx"
import { Code, Time } from "../ui/Text.tsx"

const Row = ({ schedule, zone }: { readonly schedule: Schedule; readonly zone: string }) => {
  const { endpoint, last, name, next: [first], spec } = schedule
  const [tone, word] = stateOf(schedule)
  return (
    <tr>
      <th scope="row">
        <Link to="/console/schedules/$endpoint/$schedule" params={{ endpoint, schedule: name }}>{name}</Link>
      </th>
      <td>
        <Badge tone={tone}>{word}</Badge>
      </td>
      <td data-label="Endpoint">
        <Link to="/console/endpoints/$endpoint" params={{ endpoint }}>{endpoint}</Link>
      </td>
      <td data-label="When" className="breaks">{whenText(spec, zone)}</td>
      <td data-label="Next" className="breaks">
        {first === undefined ? <span className="zero">-</span> : (
          <>
            <span className="nowrap">{inZone(first, zone)}</span>
            <span className="muted below">
              <Time at={first} />
            </span>
          </>
        )}
      </td>
      <td data-label="Last" className="breaks">
        <Firing endpoint={endpoint} firing={last} />
      </td>
      <td className="breaks">
        <ScheduleActions schedule={schedule} />
      </td>
    </tr>
  )
}

const Empty = () => (
  <section className="empty">
    <h2>No schedule yet</h2>
    <p>
      A schedule submits jobs to an endpoint at the times of a cron expression, or once.{" "}
      <Link to="/console/schedules/new">Create one</Link>, or in a terminal:
    </p>
    <Code label="the command">stint schedules set hello nightly --cron "0 3 * * *" --time-zone Europe/Berlin</Code>
  </section>
)

const SchedulesPage = () => {
  const { choice, choose, zoneOf } = useZone()
  const query = useQuery({
    queryKey: ["schedules"],
    queryFn: ({ signal }) => schedules(signal),
    refetchInterval: usePoll(5_000)
  })
  return (
    <>
      <div className="heading">
        <h1>Schedules</h1>
        <div className="actions">
          <Link to="/console/schedules/new" className="button primary">New schedule</Link>
        </div>
      </div>
      <Loaded query={query} rows={6}>
        {({ schedules: all }) =>
          all.length === 0 ? <Empty /> : (
            <>
              <ZoneChoice choice={choice} choose={choose} zones={all.map(({ spec }) => spec.timeZone)} />
              <table className="stacks">
                <ActionsHead names={["Schedule", "State", "Endpoint", "When", "Next", "Last"]} />
                <tbody>
                  {all.map((one) => <Row key={`${one.endpoint}/${one.name}`} schedule={one} zone={zoneOf(one.spec.timeZone)} />)}
                </tbody>
              </table>
            </>
          )}
      </Loaded>
    </>
  )
}

export default SchedulesPage

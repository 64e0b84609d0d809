/**
 * A schedule: its next five firings, its last firing, its settings, and the form that changes them.
 */
import type { Schedule } from "@stint/contract/Schedule"
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { Link, useNavigate, useParams } from "@tanstack/react-router"
import { lazy, Suspense, useState } from "react"
import { deleteSchedule, schedule as readSchedule } from "../api/Schedules.ts"
import { duration } from "../format/Format.ts"
import { inZone } from "../format/Zones.ts"
import { usePoll } from "../live/Connection.ts"
import { Firing } from "../schedules/Firing.tsx"
import { ScheduleActions } from "../schedules/ScheduleActions.tsx"
import { CATCH_UPS, OVERLAPS, stateOf, whenText } from "../schedules/ScheduleWords.ts"
import { useZone, ZoneChoice } from "../schedules/ZoneChoice.tsx"
import { Confirm } from "../ui/Confirm.tsx"
import { Loaded, Loading } from "../ui/Loaded.tsx"
import { Badge } from "../ui/Status.tsx"
import { SettingsTable } from "../ui/Table.tsx"
import { JsonView, Time } from "../ui/Text.tsx"

const ScheduleForm = lazy(async () => ({ default: (await import("../schedules/ScheduleForm.tsx")).ScheduleForm }))

const Next = ({ schedule: { next, paused, waiting }, zone }: { readonly schedule: Schedule; readonly zone: string }) => (
  <section aria-labelledby="next">
    <h2 id="next">Next firings</h2>
    {waiting.length === 0 ? null : (
      <p className="notice warn">
        Due, and waiting for the end of the previous job: {waiting.map((time) => inZone(time, zone)).join(", ")}
      </p>
    )}
    {next.length === 0
      ? <p className="muted">{paused ? "None while it is paused." : "None follows."}</p>
      : (
        <ol className="plain times">
          {next.map((time) => (
            <li key={time}>
              {inZone(time, zone)}{" "}
              <span className="muted">
                <Time at={time} />
              </span>
            </li>
          ))}
        </ol>
      )}
  </section>
)

const settingsOf = ({ spec, updatedBy }: Schedule, zone: string): ReadonlyArray<readonly [name: string, value: string]> => {
  const { catchUp, catchUpLimit, jitterMs, overlap, policy, priority, tags, webhook } = spec
  return [
    ["When", whenText(spec, zone)],
    ["While the previous job runs", OVERLAPS[overlap]],
    ["After the platform was down", `${CATCH_UPS[catchUp]}${catchUp === "all" ? `, at most ${catchUpLimit}` : ""}`],
    ["Jitter", jitterMs === 0 ? "none" : `below ${duration(jitterMs)}`],
    ...(priority === undefined ? [] : [["Priority", String(priority)] as const]),
    ...(tags === undefined || tags.length === 0 ? [] : [["Tags", tags.join(", ")] as const]),
    ...(policy === undefined ? [] : [["Policy", JSON.stringify(policy)] as const]),
    ...(webhook === undefined ? [] : [["Webhook", typeof webhook === "string" ? webhook : webhook.url] as const]),
    ["Set by", updatedBy]
  ]
}

const View = ({ schedule, zone }: { readonly schedule: Schedule; readonly zone: string }) => (
  <>
    <div className="columns">
      <Next schedule={schedule} zone={zone} />
      <section aria-labelledby="last">
        <h2 id="last">Last firing</h2>
        <Firing endpoint={schedule.endpoint} firing={schedule.last} />
        {schedule.last === null ? null : <p className="muted">For {inZone(schedule.last.scheduledFor, zone)}</p>}
      </section>
    </div>
    <h2>Settings</h2>
    <SettingsTable rows={settingsOf(schedule, zone)} />
    <h2>Input of each job</h2>
    <JsonView value={schedule.spec.input} label="the input" />
  </>
)

const SchedulePage = () => {
  const { endpoint = "", schedule: name = "" } = useParams({ strict: false })
  const navigate = useNavigate()
  const client = useQueryClient()
  const [isEdited, setEdited] = useState(false)
  const { choice, choose, zoneOf } = useZone()
  const query = useQuery({
    queryKey: ["schedules", endpoint, name],
    queryFn: ({ signal }) => readSchedule(endpoint, name, signal),
    refetchInterval: usePoll(5_000)
  })
  const refresh = () => void client.invalidateQueries({ queryKey: ["schedules"] })
  return (
    <Loaded query={query} rows={8}>
      {(schedule) => {
        const [tone, word] = stateOf(schedule)
        return (
          <>
            <div className="heading">
              <h1>{name}</h1>
              <Badge tone={tone}>{word}</Badge>
              <Link to="/console/endpoints/$endpoint" params={{ endpoint }}>{endpoint}</Link>
              <div className="actions">
                <ScheduleActions schedule={schedule} />
                {isEdited ? null : <button type="button" className="button" onClick={() => setEdited(true)}>Edit</button>}
                <Confirm
                  label="Remove"
                  title={`Remove the schedule ${name} of ${endpoint}?`}
                  body="It submits no more jobs. Jobs that it has already submitted continue. This cannot be undone."
                  verb="Remove the schedule"
                  danger
                  action={() => deleteSchedule(endpoint, name)}
                  onDone={() => {
                    client.removeQueries({ queryKey: ["schedules", endpoint, name] })
                    refresh()
                    void navigate({ to: "/console/schedules" })
                  }}
                />
              </div>
            </div>
            {isEdited
              ? (
                <Suspense fallback={<Loading rows={8} />}>
                  <ScheduleForm
                    edited={schedule}
                    endpoints={[endpoint]}
                    onClose={() => setEdited(false)}
                    onSaved={() => {
                      refresh()
                      setEdited(false)
                    }}
                  />
                </Suspense>
              )
              : (
                <>
                  <ZoneChoice choice={choice} choose={choose} zones={[schedule.spec.timeZone]} />
                  <View schedule={schedule} zone={zoneOf(schedule.spec.timeZone)} />
                </>
              )}
          </>
        )
      }}
    </Loaded>
  )
}

export default SchedulePage

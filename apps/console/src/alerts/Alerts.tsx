/**
 * The alerts that fire now: what is wrong, what to do, and where to look.
 */
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { useListPoll } from "../live/Connection.ts"
import { Icon } from "../ui/Status.tsx"
import { Time } from "../ui/Text.tsx"
import { linksOf } from "./AlertLinks.ts"

/** The list; nothing without alerts. If alerts are not configured, the platform checks no conditions. */
export const Alerts = () => {
  const { data } = useQuery({
    queryKey: ["alerts"],
    queryFn: ({ signal }) => Api.alerts(signal),
    refetchInterval: useListPoll(10_000)
  })
  if (data === undefined || data.alerts.length === 0) return null
  return (
    <section aria-labelledby="alerts">
      <h2 id="alerts">Alerts</h2>
      <ul className="alerts">
        {data.alerts.map((alert) => (
          <li key={alert.id} className="alert">
            <p className="alert-summary">
              <span className="tone-failed">
                <Icon tone="failed" />
              </span>
              <span>
                {alert.summary}{" "}
                <span className="muted">
                  Since <Time at={alert.firedAt} />.
                </span>
              </span>
            </p>
            <p className="muted">{alert.action}</p>
            <div className="actions">
              {linksOf(alert).map(({ label, search = {}, to }) => (
                <Link key={label} to={to} search={search} className="button">{label}</Link>
              ))}
            </div>
          </li>
        ))}
      </ul>
    </section>
  )
}

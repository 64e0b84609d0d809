/**
 * The outcome of the last firing of a schedule, with its job.
 */
import type { ScheduleFiring } from "@stint/contract/Schedule"
import { Link } from "@tanstack/react-router"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { shortId } from "../format/Format.ts"
import { Badge } from "../ui/Status.tsx"
import { Reason, Time } from "../ui/Text.tsx"
import { outcomeOf } from "./ScheduleWords.ts"

/** The outcome, its time, and its job or the reason why there is none. */
export const Firing = ({ endpoint, firing }: { readonly endpoint: string; readonly firing: ScheduleFiring | null }) => {
  const session = useSession()
  if (firing === null) return <span className="zero">never</span>
  const [tone, word] = outcomeOf(firing.outcome)
  return (
    <>
      <span className="firing">
        <Badge tone={tone}>{word}</Badge>
        <span className="muted">
          <Time at={firing.at} />
          {firing.trigger === "manual" ? ", by hand" : ""}
        </span>
        {firing.job === undefined
          ? null
          : permits(session, "read", endpoint)
          ? (
            <Link
              to="/console/jobs/$endpoint/$id"
              params={{ endpoint, id: firing.job }}
              className="mono"
              title={firing.job}
            >
              <span className="sr">Job</span> {shortId(firing.job)}
            </Link>
          )
          : <span className="mono" title={firing.job}>{shortId(firing.job)}</span>}
      </span>
      {firing.reason === undefined ? null : <Reason>{firing.reason}</Reason>}
    </>
  )
}

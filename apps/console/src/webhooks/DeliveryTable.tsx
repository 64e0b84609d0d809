/**
 * Webhook deliveries, with a button that sends each again.
 */
import type { WebhookDeliveryLine } from "@stint/contract/WebhooksApi"
import { Link } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { Confirm } from "../ui/Confirm.tsx"
import { Badge } from "../ui/Status.tsx"
import { Time } from "../ui/Text.tsx"
import { DELIVERY_STATES } from "./DeliveryStates.ts"

/** The event, which links to its job if the table is of an endpoint. The events of batches belong to no job. */
const Event = ({ delivery: { event, job }, endpoint, linksJobs }: {
  readonly delivery: WebhookDeliveryLine
  readonly endpoint: string
  readonly linksJobs: boolean
}) =>
  linksJobs && !event.startsWith("batch.")
    ? <Link to="/console/jobs/$endpoint/$id" params={{ endpoint, id: job }} title={`Job ${job}`}>{event}</Link>
    : event

/** The deliveries. `onChange`: one was sent again. `linksJobs`: whether each event links to its job. */
export const DeliveryTable = ({ deliveries, endpoint, linksJobs = false, onChange }: {
  readonly deliveries: ReadonlyArray<WebhookDeliveryLine>
  readonly endpoint: string
  readonly onChange: () => void
  readonly linksJobs?: boolean
}) => (
  <table className="stacks">
    <thead>
      <tr>
        <th scope="col">Event</th>
        <th scope="col">State</th>
        <th scope="col">Receiver</th>
        <th scope="col" className="number">Attempts</th>
        <th scope="col">Last answer</th>
        <th scope="col">When</th>
        <th scope="col">Actions</th>
      </tr>
    </thead>
    <tbody>
      {deliveries.map((one) => (
        <tr key={one.id}>
          <th scope="row">
            <Event delivery={one} endpoint={endpoint} linksJobs={linksJobs} />
          </th>
          <td>
            <Badge tone={DELIVERY_STATES[one.state].tone}>{DELIVERY_STATES[one.state].word}</Badge>
          </td>
          <td data-label="Receiver" className="breaks">{one.url}</td>
          <td className="number" data-label="Attempts">{one.attemptCount}</td>
          <td data-label="Last answer">{one.lastStatus ?? one.lastError ?? "none yet"}</td>
          <td data-label="When">
            <Time at={one.createdAt} />
            {one.nextAt === null ? null : (
              <>
                , next <Time at={one.nextAt} />
              </>
            )}
          </td>
          <td>
            <Confirm
              label="Resend"
              name={`Resend ${one.event}`}
              title="Send 1 webhook again?"
              body={`${one.url} gets the same request again, with the same webhook-id. A receiver that has already handled it can ignore it.`}
              verb="Send the webhook"
              action={() => Api.resendDelivery(endpoint, one.id)}
              onDone={onChange}
            />
          </td>
        </tr>
      ))}
    </tbody>
  </table>
)

/**
 * The webhook deliveries of all jobs and batches of an endpoint, newest first.
 */
import type { WebhookDeliveryState } from "@stint/contract/WebhooksApi"
import { useInfiniteQuery } from "@tanstack/react-query"
import { useState } from "react"
import * as Api from "../api/Api.ts"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { usePoll } from "../live/Connection.ts"
import { Chips } from "../ui/Choices.tsx"
import { Loading, Problem } from "../ui/Loaded.tsx"
import { MoreButton } from "../ui/MoreButton.tsx"
import { DELIVERY_STATES } from "./DeliveryStates.ts"
import { DeliveryTable } from "./DeliveryTable.tsx"

const PAGE = 50

const List = ({ endpoint, state }: { readonly endpoint: string; readonly state: WebhookDeliveryState | "" }) => {
  const query = useInfiniteQuery({
    queryKey: ["deliveries", endpoint, "all", state],
    initialPageParam: "",
    queryFn: ({ pageParam, signal }) =>
      Api.deliveries(endpoint, { state: state || undefined, limit: PAGE, cursor: pageParam || undefined }, signal),
    getNextPageParam: ({ cursor }) => cursor ?? undefined,
    refetchInterval: usePoll(4_000)
  })
  const session = useSession()
  const { data, error, refetch } = query
  if (data === undefined) return error === null ? <Loading rows={4} /> : <Problem error={error} onRetry={() => void refetch()} />
  const deliveries = data.pages.flatMap((page) => page.deliveries)
  return (
    <>
      {error === null ? null : <Problem error={error} onRetry={() => void refetch()} />}
      {deliveries.length === 0
        ? (
          <p className="empty">
            {state === ""
              ? "No webhook has been sent. A job names its webhook when it is submitted."
              : "No webhook is in this state."}
          </p>
        )
        : (
          <DeliveryTable
            deliveries={deliveries}
            endpoint={endpoint}
            linksJobs={permits(session, "read", endpoint)}
            onChange={() => void refetch()}
          />
        )}
      <MoreButton query={query}>Show older webhooks</MoreButton>
    </>
  )
}

/** The deliveries, with a filter by state. */
export const EndpointDeliveries = ({ endpoint }: { readonly endpoint: string }) => {
  const [state, setState] = useState<WebhookDeliveryState | "">("")
  return (
    <>
      <Chips
        label="State"
        choices={[
          ["", "All"],
          ["pending", DELIVERY_STATES.pending.word],
          ["delivered", DELIVERY_STATES.delivered.word],
          ["failed", DELIVERY_STATES.failed.word]
        ]}
        value={state}
        onChoose={setState}
      />
      <List key={state} endpoint={endpoint} state={state} />
    </>
  )
}

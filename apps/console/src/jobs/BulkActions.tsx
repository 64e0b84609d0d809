/**
 * Bulk operations on the jobs that match a query: the buttons that start them, and their progress, which the platform stores.
 */
import { AlertDialog } from "@base-ui/react/alert-dialog"
import type { BulkAction as ActionName, BulkOperation } from "@stint/contract/Bulk"
import type { JobSearch } from "@stint/contract/JobSearch"
import { restrictedTo } from "@stint/contract/SearchMatch"
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import * as Api from "../api/Api.ts"
import { count as countText, counted } from "../format/Format.ts"
import { useNow } from "../live/Clock.ts"
import { usePoll } from "../live/Connection.ts"
import { Loading, Problem } from "../ui/Loaded.tsx"
import { BULK_WORDS, bulkSummary, isBulkOpen, progressShare, shownOperations } from "./BulkProgress.ts"

const KEY = ["bulk"]

const numberOf = ({ count, more }: BulkOperation["matched"]): string => `${more ? "over " : ""}${counted(count, "job")}`

/** The button that changes all jobs that match a query, after a confirmation. */
export const BulkAction = ({ action, query }: { readonly action: ActionName; readonly query: string }) => {
  const [isOpen, setOpen] = useState(false)
  const client = useQueryClient()
  const { ask, button, effect } = BULK_WORDS[action]
  const matched = useQuery({
    queryKey: ["count", action, query],
    queryFn: ({ signal }) => Api.countJobs(query, action, signal),
    enabled: isOpen,
    staleTime: 0,
    gcTime: 0
  })
  const { error, isPending, mutate, reset } = useMutation({
    mutationFn: () => Api.startBulk(action, query),
    onSuccess: () => {
      setOpen(false)
      void client.invalidateQueries({ queryKey: KEY })
    }
  })
  const isDanger = action === "cancel"
  return (
    <AlertDialog.Root
      open={isOpen}
      onOpenChange={(open) => {
        reset()
        setOpen(open)
      }}
    >
      <AlertDialog.Trigger className={isDanger ? "button danger" : "button"}>{button}</AlertDialog.Trigger>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="backdrop" />
        <AlertDialog.Popup className="dialog">
          <AlertDialog.Title className="dialog-title">
            {matched.data === undefined ? `${ask} all matching jobs?` : `${ask} ${numberOf(matched.data)}?`}
          </AlertDialog.Title>
          <AlertDialog.Description>
            {effect} It begins after 10 seconds, until which you can take it back, and covers the jobs that exist now.
          </AlertDialog.Description>
          <p className="mono query-text">{query}</p>
          {matched.error !== null ? <Problem error={matched.error} /> : matched.data === undefined ? <Loading rows={1} /> : null}
          {error === null ? null : <Problem error={error} />}
          <div className="actions">
            <AlertDialog.Close className="button">Back</AlertDialog.Close>
            <button
              type="button"
              className={isDanger ? "button danger solid" : "button primary"}
              disabled={isPending || matched.data === undefined || (matched.data.count === 0 && !matched.data.more)}
              onClick={() => mutate()}
            >
              {matched.data === undefined ? ask : `${ask} ${numberOf(matched.data)}`}
            </button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}

/** The buttons that change all jobs that match the query. Omits actions that would change no job with a status in the query. */
export const BulkActions = ({ query, search }: { readonly query: string; readonly search: JobSearch }) => (
  <div className="actions" role="group" aria-label="All matching jobs">
    {(["retry", "rerun", "cancel"] as const).filter((action) =>
      restrictedTo(search, action) !== undefined
    ).map((action) => <BulkAction key={action} action={action} query={query} />)}
  </div>
)

const Operation = ({ mayChange, operation }: { readonly operation: BulkOperation; readonly mayChange: boolean }) => {
  const now = useNow()
  const client = useQueryClient()
  const { error, isPending, mutate } = useMutation({
    mutationFn: () => Api.cancelBulk(operation.id),
    onSettled: () => client.invalidateQueries({ queryKey: KEY })
  })
  const { action, id, matched, query, startsAt, state } = operation
  const left = Math.max(0, Math.ceil((startsAt - now) / 1_000))
  const share = progressShare(operation)
  return (
    <section className="notice" aria-label={`${BULK_WORDS[action].ask} ${numberOf(matched)}`}>
      <div className="heading">
        <h2>{BULK_WORDS[action].ask} {numberOf(matched)}</h2>
        <div className="actions">
          {mayChange && isBulkOpen(operation)
            ? (
              <button type="button" className="button" disabled={isPending} onClick={() => mutate()}>
                {state === "held" ? "Take back" : "Stop"}
              </button>
            )
            : null}
        </div>
      </div>
      <p className="mono query-text">{query}</p>
      {state === "running" ? <progress aria-label="Progress" max={1} value={share} /> : null}
      <p role="status">
        {state === "held"
          ? left === 0 ? "Begins now." : `Begins in ${countText(left)} s.`
          : bulkSummary(operation)}
      </p>
      {operation.problems.length === 0
        ? null
        : (
          <ul className="plain">
            {operation.problems.map(({ endpoint, job, reason }) => (
              <li key={`${id} ${job}`}>
                {endpoint} <span className="mono">{job}</span>: {reason}
              </li>
            ))}
          </ul>
        )}
      {error === null ? null : <Problem error={error} />}
    </section>
  )
}

/** Unfinished operations, and those that ended recently. Closing the page does not affect them. */
export const BulkProgress = ({ mayChange }: { readonly mayChange: boolean }) => {
  const now = useNow()
  const operations = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => Api.bulkOperations(signal),
    refetchInterval: usePoll(1_000)
  })
  if (operations.error !== null) return <Problem error={operations.error} onRetry={() => void operations.refetch()} />
  return shownOperations(operations.data?.operations ?? [], now).map((operation) => (
    <Operation key={operation.id} operation={operation} mayChange={mayChange} />
  ))
}

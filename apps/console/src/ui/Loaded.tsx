/**
 * Shows what a query returned. A failure never looks like an empty result. It shows what is wrong and what to do, and keeps older data visible.
 */
import { CallError } from "@stint/client"
import type { UseQueryResult } from "@tanstack/react-query"
import type { ReactNode } from "react"
import { ApiError } from "../api/Api.ts"
import { clockTime } from "../format/Format.ts"

/** What is wrong, what to do, and a button that tries again. */
export const Problem = ({ error, onRetry, since }: {
  readonly error: unknown
  readonly onRetry?: (() => void) | undefined
  /** When the data that is still shown was read. */
  readonly since?: number | undefined
}) => {
  const message = error instanceof CallError ? error.detail : error instanceof Error ? error.message : String(error)
  const hint = error instanceof ApiError || error instanceof CallError ? error.hint : undefined
  return (
    <div className="problem" role="alert">
      <p>
        <strong>{message}</strong>
        {since === undefined ? null : ` The data shown is from ${clockTime(since).slice(0, 8)}.`}
      </p>
      {hint === undefined ? null : <p>{hint}</p>}
      {onRetry === undefined ? null : <button type="button" className="button" onClick={onRetry}>Try again</button>}
    </div>
  )
}

/** Space for content that is loading, so that nothing moves when it arrives. */
export const Loading = ({ rows = 4 }: { readonly rows?: number }) => (
  <div className="loading" role="status" aria-label="Loading">
    {Array.from({ length: rows }, (_, row) => <div key={row} />)}
  </div>
)

/** The content for a query's data, its failure, or a placeholder while it loads. */
export function Loaded<A>({ children, query, rows }: {
  readonly query: UseQueryResult<A>
  readonly children: (data: A) => ReactNode
  readonly rows?: number
}) {
  const { data, dataUpdatedAt, error, refetch } = query
  if (data === undefined) {
    if (error === null) return <Loading {...(rows === undefined ? {} : { rows })} />
    return <Problem error={error} onRetry={() => void refetch()} />
  }
  return (
    <>
      {error === null ? null : <Problem error={error} onRetry={() => void refetch()} since={dataUpdatedAt} />}
      {children(data)}
    </>
  )
}

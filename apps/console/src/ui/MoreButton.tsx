/**
 * Reads the next page of a list.
 */
import type { UseInfiniteQueryResult } from "@tanstack/react-query"
import type { ReactNode } from "react"

/** A button below the list. Nothing, if the list has no further page. */
export const MoreButton = ({ children, query: { fetchNextPage, hasNextPage, isFetchingNextPage } }: {
  readonly query: Pick<UseInfiniteQueryResult, "fetchNextPage" | "hasNextPage" | "isFetchingNextPage">
  readonly children: ReactNode
}) =>
  hasNextPage
    ? (
      <button type="button" className="button more" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
        {children}
      </button>
    )
    : null

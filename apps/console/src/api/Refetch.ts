/**
 * Fetches a query again after an event.
 */
import type { QueryClient, QueryKey } from "@tanstack/react-query"

/**
 * Fetches the query again, with a request that begins now. `refetch` and `invalidateQueries` alone would return the first request of a query that has no
 * data yet: its response may be older than the event, and nothing would fetch the query again.
 */
export const refetchNow = async (client: QueryClient, queryKey: QueryKey): Promise<void> => {
  await client.cancelQueries({ queryKey })
  await client.invalidateQueries({ queryKey })
}

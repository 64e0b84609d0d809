/**
 * The last hour of the endpoints, from the platform that serves this page.
 */
import type { EndpointHistory, History } from "@stint/contract/HistoryApi"
import { part, queryOf, read } from "./Api.ts"

/** The rates of all endpoints that the key permits. */
export const rates = (signal?: AbortSignal) => read<History>("/api/v1/history", signal)

/** The samples of an endpoint in the last minutes. */
export const history = (endpoint: string, minutes: number, signal?: AbortSignal) =>
  read<EndpointHistory>(`/api/v1/history/${part(endpoint)}${queryOf({ minutes })}`, signal)

/**
 * The operation that reads usage.
 */
import type { UsageReport } from "@stint/contract/UsageApi"
import { queryOf, read } from "./Api.ts"

/** What ran and what it cost. Needs the scope `jobs:read`, `deploy` or `admin`. */
export const usage = (query: Readonly<Record<string, string | number | undefined>>, signal?: AbortSignal) =>
  read<UsageReport>(`/api/v1/usage${queryOf(query)}`, signal)

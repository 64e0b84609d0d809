/**
 * Reads usage in pages, with the worker time divided between the keys (Billing.ts).
 */
import type { StoreError } from "@stint/store/StoreError"
import type { UsageKey, UsageRecord, UsageStore } from "@stint/store/UsageStore"
import * as Effect from "effect/Effect"
import { makeSharing } from "./Billing.ts"

/** Records per page. Each page blocks other work for a few milliseconds. */
const PAGE = 2_000

/**
 * Calls `use` with each record between two times. Stops after `limit` records, and returns false if there are more. Default: no limit.
 */
export const readUsage = Effect.fnUntraced(function*(
  store: UsageStore["Service"],
  { from, limit = Infinity, to }: { readonly from: number; readonly to: number; readonly limit?: number },
  use: (record: UsageRecord) => void
): Effect.fn.Return<boolean, StoreError> {
  const sharing = makeSharing(use)
  let after: UsageKey | undefined
  let read = 0
  while (true) {
    const page = yield* store.list({ from, to, limit: PAGE, after })
    page.forEach(sharing.next)
    read += page.length
    if (read > limit) return false
    if (page.length < PAGE) break
    after = page.at(-1)
    yield* Effect.yieldNow
  }
  sharing.end()
  return true
})

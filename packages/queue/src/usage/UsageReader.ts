/**
 * Reads usage in pages, with the times of workers shared between the keys (Billing.ts).
 */
import type { StoreError } from "@stint/store/StoreError"
import type { UsageKey, UsageRecord, UsageStore } from "@stint/store/UsageStore"
import * as Effect from "effect/Effect"
import { makeSharing } from "./Billing.ts"

/** Records per page: each takes some milliseconds, after which other work continues. */
const PAGE = 2_000

/**
 * Calls `use` with each record between two times. Returns false if there are more than `limit`, after that many. Default for `limit`: none.
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

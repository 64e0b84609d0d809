/**
 * The search of NodeSearch.test.ts over stores with planted bugs: it must find a short sequence that breaks the rule.
 */
import { assert, describe, it } from "@effect/vitest"
import type { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { search } from "../src/search/NodeSearch.ts"
import { acceptsStaleResults, ignoresKeys, planted, type Store } from "./PlantedStores.ts"

/** Says that a running job was cancelled, and does not store it. */
const forgetsCancels = planted((store) => ({
  apply: (endpoint, id, event) =>
    event._tag !== "Cancel" ?
      store.apply(endpoint, id, event) :
      Effect.flatMap(store.get(endpoint, id), (job): ReturnType<Store["apply"]> =>
        job?.status === "IN_PROGRESS"
          ? Effect.succeed({ _tag: "Changed", before: job, after: { ...job, status: "CANCELLED" } })
          : store.apply(endpoint, id, event))
}))

/** Does not return the job of a worker that was silent for a lease. */
const firesNoTimers = planted(() => ({ tick: () => Effect.succeed([]) }))

/** The message of a failed search. */
const messageOf = (store: Layer.Layer<JobStore>) =>
  search(store, { runs: 1_000, seed: 1 }).pipe(
    Effect.map(() => "nothing"),
    Effect.catchDefect((defect) => Effect.succeed(defect instanceof Error ? defect.message : String(defect)))
  )

describe("chaos: planted bugs in a search over nodes", () => {
  it.live.each(
    [
      ["R2", "accepts stale results", acceptsStaleResults],
      ["R3", "ignores idempotency keys", ignoresKeys],
      ["R5", "fires no timers", firesNoTimers],
      ["R8", "forgets cancels", forgetsCancels]
    ] as const
  )("%s: finds a short sequence for a store that %s", ([rule, , store]) =>
    Effect.gen(function*() {
      const message = yield* messageOf(store)
      assert.include(message, `==> ${rule}`)
      assert.isBelow(message.split("\n").length, 25, message)
    }), 600_000)
})

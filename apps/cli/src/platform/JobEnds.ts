/**
 * Reports the jobs that end or return to the queue, as the store changes them.
 */
import { isTerminal } from "@stint/contract/Job"
import type { JobHead } from "@stint/store/JobRecord"
import { type ApplyResult, JobStore } from "@stint/store/JobStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** `error`: why the attempt failed; null when it did not. */
export type OnAttemptEnd = (job: JobHead, error: string | null) => Effect.Effect<void>

const endsAttempt = ({ after, before }: Extract<ApplyResult, { readonly _tag: "Changed" }>): boolean =>
  !isTerminal(before.status) && (isTerminal(after.status) || (before.status === "IN_PROGRESS" && after.status === "IN_QUEUE"))

/** The underlying store, which calls `onEnd` after each change that ends a job or an attempt. */
export const layer = (onEnd: OnAttemptEnd): Layer.Layer<JobStore, never, JobStore> =>
  Layer.effect(
    JobStore,
    Effect.map(JobStore, (store) => {
      const report = Effect.fnUntraced(function*(results: ReadonlyArray<ApplyResult>) {
        for (const result of results) {
          if (result._tag !== "Changed" || !endsAttempt(result)) continue
          const { after } = result
          const full = after.status === "COMPLETED"
            ? undefined
            : yield* Effect.orElseSucceed(store.get(after.endpoint, after.id), () => undefined)
          yield* onEnd(after, full?.error ?? full?.lastError ?? null)
        }
      })
      const one = <R>(change: Effect.Effect<ApplyResult, StoreError, R>) => Effect.tap(change, (result) => report([result]))
      const many = <R>(change: Effect.Effect<ReadonlyArray<ApplyResult>, StoreError, R>) => Effect.tap(change, report)
      return JobStore.of({
        ...store,
        apply: (...given) => one(store.apply(...given)),
        append: (...given) => one(store.append(...given)),
        claim: (...given) => Effect.tap(store.claim(...given), ({ expired }) => report(expired)),
        tick: (...given) => many(store.tick(...given)),
        applyRunning: (...given) => many(store.applyRunning(...given)),
        applyWaiting: (...given) => many(store.applyWaiting(...given))
      })
    })
  )

/**
 * All steps of a run, read page by page.
 */
import type { RunStep, RunSteps } from "@stint/contract/RunSteps"
import * as Effect from "effect/Effect"
import { call } from "../client/PlatformClient.ts"

/** The maximum number of steps in a page. */
const PAGE = 1_000

/** All steps of a run, with its other data. */
export const allSteps = Effect.fnUntraced(function*(endpoint: string, id: string) {
  const steps: Array<RunStep> = []
  let after = 0
  while (true) {
    const page: RunSteps = yield* call((api) => api.runs.steps({ params: { endpoint, id }, query: { after, limit: PAGE } }))
    steps.push(...page.steps)
    if (page.next === undefined) return { ...page, steps }
    after = page.next
  }
})

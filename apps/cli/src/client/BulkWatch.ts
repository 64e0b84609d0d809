/**
 * Starts a bulk operation and watches it: shows the number of jobs, asks for confirmation, and shows the hold, the progress and the result.
 */
import type { BulkAction, BulkOperation } from "@stint/contract/Bulk"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure } from "../CliFailure.ts"
import { toMillis } from "../commands/SharedFlags.ts"
import { confirm } from "../output/Confirm.ts"
import * as Output from "../output/Output.ts"
import { call } from "./PlatformClient.ts"

/** Pause between two reads of the progress. */
const POLL = "500 millis"

const VERBS = {
  retry: { ask: "Retry", done: "Retried" },
  cancel: { ask: "Cancel", done: "Cancelled" },
  rerun: { ask: "Submit again", done: "Submitted again" }
} as const

const jobs = (count: number): string => `${count} ${count === 1 ? "job" : "jobs"}`

/** `512 jobs`, or `over 10000 jobs`. */
const counted = ({ count, more }: BulkOperation["matched"]): string => `${more ? "over " : ""}${jobs(count)}`

/** The count as a sentence. */
const matching = (found: BulkOperation["matched"]): string =>
  found.count === 0 && found.more
    ? "None of the counted jobs matches. There are more."
    : `${counted(found)} ${found.count === 1 && !found.more ? "matches" : "match"}.`

const SKIPPED: ReadonlyArray<readonly [keyof BulkOperation["skipped"], string]> = [
  ["changed", "whose status had changed"],
  ["missing", "that had been removed"],
  ["endpoint", "of deleted endpoints"]
]

/** The result, or the progress so far, in one sentence. */
export const progressOf = (operation: BulkOperation): string => {
  const { action, done, failed, skipped, state } = operation
  return [
    `${VERBS[action].done} ${jobs(done)}`,
    ...SKIPPED.flatMap(([reason, words]) => skipped[reason] === 0 ? [] : [`skipped ${skipped[reason]} ${words}`]),
    ...(failed === 0 ? [] : [`${failed} failed`]),
    ...(state === "cancelled" ? ["stopped by a cancel"] : [])
  ].join(", ")
}

const result = (operation: BulkOperation): string =>
  [
    `${progressOf(operation)}.`,
    ...operation.problems.map(({ endpoint, job, reason }) =>
      `  ${Output.inline(endpoint)} ${Output.inline(job)}: ${Output.inline(reason)}`
    )
  ].join("\n")

const read = (bulk: string) => call((api) => api.bulk.getBulk({ params: { bulk } }))

const isEnded = ({ state }: BulkOperation): boolean => state === "done" || state === "cancelled"

/** Waits for an operation to end. The platform continues it even if this command ends first. */
const follow = Effect.fnUntraced(function*(started: BulkOperation) {
  const progress = Output.makeProgress()
  const since = yield* Clock.currentTimeMillis
  let operation = started
  const step = Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    const state = operation.state === "held"
      ? `held for ${
        Math.max(0, Math.ceil((operation.startsAt - now) / 1_000))
      } s; to cancel it: stint jobs bulk cancel ${operation.id}`
      : `${progressOf(operation)} of ${counted(operation.matched)}`
    yield* progress.show(state, now - since)
    yield* Effect.sleep(POLL)
    operation = yield* read(operation.id)
  })
  while (!isEnded(operation)) yield* step
  yield* progress.clear
  return operation
}, (watch, { id }) =>
  Effect.onInterrupt(watch, () =>
    Output.message(
      `\nStopped watching. The platform continues: stint jobs bulk show ${id}. To cancel or stop it: stint jobs bulk cancel ${id}`
    )))

/** What to do, with which jobs. */
export interface Options {
  readonly action: BulkAction
  readonly where: string
  readonly hold: Option.Option<Duration.Duration>
  readonly yes: boolean
  readonly json: boolean
}

/** Shows how many jobs match, asks, starts the operation and waits for it to end. Fails when a job could not be changed. */
export const run = Effect.fnUntraced(function*({ action, hold, json, where, yes }: Options) {
  const found = yield* call((api) => api.bulk.countJobs({ query: { query: where, action } }))
  const isNone = found.count === 0 && !found.more
  if (!json) yield* Output.message(matching(found))
  const text = `${VERBS[action].ask} ${found.count === 0 ? "all that match" : counted(found)}?`
  if (!isNone && !(yield* confirm({ text, yes, json }))) return yield* Output.message("Nothing was changed.")
  if (isNone && !json) return yield* Output.message("Nothing was changed.")
  const holdMs = Option.isSome(hold) ? { holdMs: toMillis(hold.value) } : {}
  const started = yield* call((api) => api.bulk.startBulk({ payload: { action, query: where, ...holdMs } }))
  const ended = yield* follow(started)
  yield* Output.print(json, ended, result)
  if (ended.failed > 0) {
    return yield* new CliFailure({
      message: `${jobs(ended.failed)} could not be changed.`,
      hint: `See: stint jobs bulk show ${ended.id}`,
      code: "bulk-failed"
    })
  }
})

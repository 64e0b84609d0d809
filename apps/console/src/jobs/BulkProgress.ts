/**
 * Formats bulk operations as text.
 */
import type { BulkAction, BulkOperation } from "@stint/contract/Bulk"
import { count, counted } from "../format/Format.ts"

/** The texts for an action. */
export const BULK_WORDS: Readonly<
  Record<BulkAction, { readonly button: string; readonly ask: string; readonly done: string; readonly effect: string }>
> = {
  retry: {
    button: "Retry all",
    ask: "Retry",
    done: "Retried",
    effect: "Failed and timed out jobs return to the queue under their ids."
  },
  rerun: {
    button: "Run all again",
    ask: "Run again",
    done: "Submitted again",
    effect: "For each ended job, a new job with the same input is submitted."
  },
  cancel: {
    button: "Cancel all",
    ask: "Cancel",
    done: "Cancelled",
    effect: "Waiting jobs never run, and running ones are stopped."
  }
}

/** An operation that has ended is shown for this long. */
const SHOWN_MILLIS = 5 * 60_000

/** Whether an operation can still be cancelled or stopped. */
export const isBulkOpen = ({ state }: Pick<BulkOperation, "state">): boolean => state === "held" || state === "running"

/** The operations to show: open ones, and the newest that ended in the last few minutes. */
export const shownOperations = (all: ReadonlyArray<BulkOperation>, now: number): ReadonlyArray<BulkOperation> => [
  ...all.filter(isBulkOpen),
  ...all.filter(({ endedAt }) => endedAt !== undefined && endedAt > now - SHOWN_MILLIS).slice(0, 2)
]

/** The number of processed jobs. */
const passed = ({ done, failed, skipped }: BulkOperation): number =>
  done + failed + skipped.changed + skipped.missing + skipped.endpoint

/** From 0 to 1. */
export const progressShare = (operation: BulkOperation): number =>
  Math.min(1, passed(operation) / Math.max(1, operation.matched.count))

/** `Retried 12 jobs of 512, skipped 3 whose status had changed, 1 failed.` */
export const bulkSummary = (operation: BulkOperation): string => {
  const { action, done, failed, matched, skipped, state } = operation
  const skips = [
    [skipped.changed, "whose status had changed"],
    [skipped.missing, "that had been removed"],
    [skipped.endpoint, "of deleted endpoints"]
  ] as const
  const parts = [
    `${BULK_WORDS[action].done} ${counted(done, "job")}${
      state === "running" && !matched.more ? ` of ${count(matched.count)}` : ""
    }`,
    ...skips.flatMap(([number, words]) => number === 0 ? [] : [`skipped ${count(number)} ${words}`]),
    ...(failed === 0 ? [] : [`${count(failed)} failed`])
  ]
  if (state === "cancelled") return done === 0 ? "Cancelled. No job was changed." : `${parts.join(", ")}. Then stopped.`
  return `${parts.join(", ")}.`
}

/**
 * Passes the counts of a test for rare faults to the test runner, which prints them (`pnpm chaos`).
 */

/** Counts by name, such as `jobs` and `lost`. */
export type ChaosCounts = Readonly<Record<string, number>>

declare module "vitest" {
  interface TaskMeta {
    /** The counts of a test for rare faults. */
    chaos?: ChaosCounts
  }
}

/** Adds the counts to the result of the test. */
export const reportChaos = (
  { task }: { readonly task: { readonly meta: { chaos?: ChaosCounts } } },
  counts: ChaosCounts
): void => {
  task.meta.chaos = { ...task.meta.chaos, ...counts }
}

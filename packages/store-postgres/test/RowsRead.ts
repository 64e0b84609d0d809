/**
 * For tests: the rows of jobs and runs that a node reads.
 */
import * as Effect from "effect/Effect"
import { node } from "./RunNode.ts"
import { execute } from "./TestCluster.ts"

/** The rows that all connections have read since the cluster began. A connection reports what it has read when it closes, if not before. */
const READ = `SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::int FROM pg_stat_user_tables
  WHERE schemaname = 'stint' AND relname IN ('running', 'ready', 'delayed', 'ended', 'runs', 'run_entries')`

const OPEN = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'stint'"

/** Runs an effect on its own node. Returns the effect's result, and the number of rows that the node has read. */
export const rowsRead = (address: string) => {
  const number = (text: string) => Effect.map(Effect.promise(() => execute(address, text)), ([row]) => Number(row?.[0]))
  const closed = number(OPEN).pipe(Effect.repeat({ until: (count) => count === 0 }))
  return <A, E>(run: (one: Effect.Success<ReturnType<typeof node>>) => Effect.Effect<A, E>) =>
    Effect.gen(function*() {
      yield* closed
      const before = yield* number(READ)
      const value = yield* Effect.scoped(Effect.flatMap(node(address), run))
      yield* closed
      return [value, (yield* number(READ)) - before] as const
    })
}

/**
 * The nodes of a run as the lines of a table.
 *
 * ```
 *   list             step       completed   0.12 s
 *   extras           all        open        3.40 s
 *     paid.charge    run        open        3.28 s   job step-... of charge
 *   thumbnail        forEach    open        1.02 s   7 of 12
 *   page             step       -
 * ```
 */
import type { NodeProgress } from "@stint/contract/RunProgress"

const seconds = (millis: number): string => `${(Math.max(0, millis) / 1_000).toFixed(2)} s`

/** How long a node took, or has taken until `now`. */
const timeOf = ({ endedAt, startedAt, state }: NodeProgress, now: number): string => {
  if (startedAt === undefined || state === "-" || state === "skipped") return ""
  if (state === "open") return seconds((endedAt ?? now) - startedAt)
  return endedAt === undefined || endedAt === startedAt ? "" : seconds(endedAt - startedAt)
}

/** The last names in a node's address, relative to the enclosing node. */
const nameOf = ({ depth, node }: NodeProgress): string =>
  `${"  ".repeat(depth)}${node.split(".").slice(depth === 0 ? 0 : -2).join(".")}`

/** The rows of a table. `now`: milliseconds since 1970. */
export const tableOf = (nodes: ReadonlyArray<NodeProgress>, now: number): ReadonlyArray<ReadonlyArray<string>> => [
  ["NODE", "KIND", "STATE", "TIME", ""],
  ...nodes.map((one) => [nameOf(one), one.kind, one.state, timeOf(one, now), one.note ?? ""])
]

/** The nodes whose state or count has changed since an earlier read. */
export const changedSince = (
  before: ReadonlyArray<NodeProgress>,
  after: ReadonlyArray<NodeProgress>
): ReadonlyArray<NodeProgress> => {
  const known = new Map(before.map((one) => [one.node, one]))
  return after.filter(({ node, note, state }) => {
    const earlier = known.get(node)
    return state !== (earlier?.state ?? "-") || (state === "open" && note !== earlier?.note)
  }).filter(({ state }) => state !== "skipped")
}

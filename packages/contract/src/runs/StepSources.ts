/**
 * Where the input of a node comes from. Plain TypeScript, because the console loads it into browsers.
 */
import type { PipelineGraph } from "../workers/RunJournal.ts"

/**
 * The nodes whose outputs are the input of a node, unless the input was computed. For a branch, only the part that ran. Nodes without their own output,
 * such as an `all` around the node or a sleep before it, pass on their input. An empty list stands for the input of the run.
 *
 * `recorded`: the addresses of the nodes that the run has recorded.
 */
export const sourcesOf = (graph: PipelineGraph, recorded: ReadonlySet<string>, address: string): ReadonlyArray<string> => {
  const node = graph.nodes.find((one) => one.address === address)
  const found = (node?.needs ?? []).flatMap((need) => {
    const kind = graph.nodes.find((one) => one.address === need)?.kind
    if (kind === "all" || kind === "branch" || kind === "sleep") return sourcesOf(graph, recorded, need)
    return recorded.has(need) ? [need] : []
  })
  return [...new Set(found)]
}

/**
 * The progress of one run of a pipeline: the state of each node, as a tree with times. Plain TypeScript, because the console loads it into browsers.
 */
import { nodeOf } from "../workers/NodeAddress.ts"
import type { GraphNode, PipelineGraph } from "../workers/RunJournal.ts"
import { nodeStates } from "./NodeStates.ts"
import type { RunStep } from "./RunSteps.ts"

/** `-`: not begun. `skipped`: in a branch that was not chosen. */
export type NodeState = "-" | "open" | "completed" | "failed" | "skipped"

/** One node of a run. */
export interface NodeProgress {
  readonly node: string
  readonly kind: string
  readonly state: NodeState
  /** The number of nodes around it. */
  readonly depth: number
  /** When it began and ended, in milliseconds since 1970. Steps are recorded when they end, and are taken to begin when the previous node ended. */
  readonly startedAt?: number
  readonly endedAt?: number
  /** `7 of 12`, an error, or what an open node waits for. */
  readonly note?: string
}

const itemsOf = ({ output }: RunStep): number | undefined =>
  typeof output === "object" && output !== null && "items" in output && typeof output["items"] === "number"
    ? output["items"]
    : undefined

const branchOf = ({ output }: RunStep): string | undefined =>
  typeof output === "object" && output !== null && "branch" in output && typeof output["branch"] === "string"
    ? output["branch"]
    : undefined

const firstLine = (text: string): string => text.split("\n", 1)[0] ?? ""

const noteOf = ({ attempts, endpoint, error, event, job, state }: RunStep): string | undefined => {
  if (error !== undefined) return firstLine(error)
  const failed = state === "open" ? attempts?.findLast((one) => one.error !== undefined) : undefined
  if (failed?.error !== undefined) return `attempt ${failed.attempt + 1}, after: ${firstLine(failed.error)}`
  if (event !== undefined) return `event ${event.name}${event.key === "" ? "" : `, key ${event.key}`}`
  return job === undefined ? undefined : `job ${job} of ${endpoint ?? ""}`
}

const least = (values: ReadonlyArray<number | undefined>): number | undefined => {
  const known = values.filter((value) => value !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

const most = (values: ReadonlyArray<number | undefined>): number | undefined => {
  const known = values.filter((value) => value !== undefined)
  return known.length === 0 ? undefined : Math.max(...known)
}

/** The nodes of a run in the order of its graph. */
export const progressOf = (
  graph: PipelineGraph,
  steps: ReadonlyArray<RunStep>,
  { isEnded }: { readonly isEnded: boolean }
): ReadonlyArray<NodeProgress> => {
  const states = nodeStates(steps)
  const byNode = new Map<string, Array<RunStep>>()
  for (const step of steps) {
    if (step.path.endsWith("~undo")) continue
    const address = nodeOf(step.path)
    byNode.set(address, [...byNode.get(address) ?? [], step])
  }

  const leaf = ({ address, kind }: GraphNode): Pick<NodeProgress, "state" | "note"> => {
    const own = byNode.get(address) ?? []
    const state = states.get(address) ?? "-"
    if (kind === "forEach") {
      const count = own.map(itemsOf).find((items) => items !== undefined)
      if (count === undefined) return { state }
      const done = own.filter((step) => step.state === "completed" && step.path.includes("[")).length
      return { state: state === "failed" ? state : done < count ? "open" : "completed", note: `${done} of ${count}` }
    }
    const last = own.at(-1)
    const note = last === undefined || state === "completed" ? undefined : noteOf(last)
    return { state, ...(note === undefined ? {} : { note }) }
  }

  /** A node with the nodes inside it. The inner nodes follow it in the graph, and their addresses begin with its own. */
  const rows = (nodes: ReadonlyArray<GraphNode>, depth: number, isSkipped: boolean): ReadonlyArray<NodeProgress> => {
    const found: Array<NodeProgress> = []
    let at = 0
    while (at < nodes.length) {
      const node = nodes[at]
      if (node === undefined) break
      let next = at + 1
      while (nodes[next]?.address.startsWith(`${node.address}.`) === true) next++
      const inner = nodes.slice(at + 1, next)
      at = next
      const own = byNode.get(node.address) ?? []
      const chosen = own.map(branchOf).find((name) => name !== undefined)
      const isOther = ({ address }: GraphNode) =>
        node.kind === "branch" && chosen !== undefined && !address.startsWith(`${node.address}.${chosen}.`)
      const below = [
        ...rows(inner.filter((one) => !isOther(one)), depth + 1, isSkipped),
        ...rows(inner.filter(isOther), depth + 1, true)
      ].toSorted((a, b) =>
        inner.findIndex(({ address }) => address === a.node) - inner.findIndex(({ address }) => address === b.node)
      )
      const itself = node.kind === "all" || node.kind === "branch" ? around(node.kind, chosen, below) : leaf(node)
      const times = [...own, ...below]
      const startedAt = least(times.flatMap((one) => [one.startedAt, one.endedAt]))
      const endedAt = itself.state === "open" && !isEnded ? undefined : most(times.map((one) => one.endedAt))
      found.push({
        node: node.address,
        kind: node.endpoint === undefined || node.endpoint === node.address ? node.kind : `${node.kind} ${node.endpoint}`,
        depth,
        ...itself,
        ...(isSkipped && itself.state === "-" ? { state: "skipped" as const } : {}),
        ...(startedAt === undefined ? {} : { startedAt }),
        ...(endedAt === undefined ? {} : { endedAt })
      }, ...below)
    }
    return found
  }
  return rows(graph.nodes, 0, false)
}

/** The state of an `all` or a `branch`, from the states of the nodes inside it. */
const around = (
  kind: "all" | "branch",
  chosen: string | undefined,
  inner: ReadonlyArray<NodeProgress>
): Pick<NodeProgress, "state" | "note"> => {
  const counted = inner.filter(({ state }) => state !== "skipped")
  const note = chosen === undefined ? {} : { note: chosen }
  if (counted.some(({ state }) => state === "failed")) return { state: "failed", ...note }
  const hasBegun = chosen !== undefined || counted.some(({ state }) => state !== "-")
  if (!hasBegun) return { state: "-" }
  const isDone = counted.every(({ state }) => state === "completed") && (kind === "all" || chosen !== undefined)
  return { state: isDone ? "completed" : "open", ...note }
}

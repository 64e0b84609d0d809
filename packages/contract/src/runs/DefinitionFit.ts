/**
 * Whether a run that has begun can follow another definition of its pipeline (docs/spec/pipelines.md#versions). Pure.
 *
 * Only unrecorded nodes may change: every recorded node must exist in the other definition, with the same kind and the same output.
 */
import { nodeOf } from "../workers/NodeAddress.ts"
import type { EntryKind, GraphNode, PipelineGraph } from "../workers/RunJournal.ts"

/** The address of a run's input, which is recorded when the run is submitted. No node has it. */
const INPUT = "input"

/** A node of a run's own definition that is missing or different in another definition. */
export interface NodeChange {
  readonly node: string
  readonly change: "changed" | "removed"
  /** Why a run that has recorded the node does not fit the other definition, in one sentence. */
  readonly reason: string
}

/** The compared parts of a graph. Workers of earlier versions send graphs without `input` and `parts`, which are then not compared. */
type Comparable = Pick<PipelineGraph, "nodes" | "input">

/** The body of a branch's choice. */
const branchOf = (body: unknown): string | undefined =>
  typeof body === "object" && body !== null && "branch" in body && typeof body.branch === "string" ? body.branch : undefined

/**
 * The addresses that an entry has recorded: its node, the nodes and parts around it and, for a choice, the branch that was taken. None for the
 * entries of a cancel.
 */
export const recordedBy = (
  { body, kind, path }: { readonly path: string; readonly kind: EntryKind; readonly body?: unknown }
): ReadonlyArray<string> => {
  if (path.startsWith("~")) return []
  const names = nodeOf(path).split(".")
  const branch = kind === "choice" ? branchOf(body) : undefined
  if (branch !== undefined) names.push(branch)
  return names.map((_, index) => names.slice(0, index + 1).join("."))
}

const each = ({ endpoint, kind }: GraphNode): string =>
  kind === "forEach" ? (endpoint === undefined ? " of steps" : " of jobs") : ""

const changeOf = (was: GraphNode, is: GraphNode | undefined): NodeChange | undefined => {
  const node = was.address
  if (is === undefined) {
    return {
      node,
      change: "removed",
      reason: `The run has recorded the node "${node}", which the definition of the worker does not have.`
    }
  }
  const [before, after] = [`${was.kind}${each(was)}`, `${is.kind}${each(is)}`]
  if (before !== after) {
    return {
      node,
      change: "changed",
      reason: `The run has recorded the node "${node}" as a ${before}; in the definition of the worker it is a ${after}.`
    }
  }
  if (was.output === is.output) return undefined
  return {
    node,
    change: "changed",
    reason: `The run has recorded the output of the node "${node}", whose type is different in the definition of the worker.`
  }
}

const branchChanges = (was: GraphNode, is: GraphNode | undefined): ReadonlyArray<NodeChange> => {
  const parts = is?.kind === was.kind ? is.parts : undefined
  if (parts === undefined) return []
  return (was.parts ?? []).filter((part) => !parts.includes(part)).map((part) => ({
    node: `${was.address}.${part}`,
    change: "removed",
    reason: `The run has chosen "${part}" at the node "${was.address}", which the definition of the worker does not offer there.`
  }))
}

/** The nodes of a definition that are missing or different in another one, in the order of the definition. */
export const changes = (own: Comparable, other: Comparable): ReadonlyArray<NodeChange> => {
  const after = new Map(other.nodes.map((node) => [node.address, node]))
  const isSameInput = own.input === undefined || other.input === undefined || own.input === other.input
  return [
    ...(isSameInput ? [] : [{
      node: INPUT,
      change: "changed" as const,
      reason: "The run began with an input whose type is different in the definition of the worker."
    }]),
    ...own.nodes.flatMap((was) => {
      const is = after.get(was.address)
      const change = changeOf(was, is)
      return [...(change === undefined ? [] : [change]), ...branchChanges(was, is)]
    })
  ]
}

/** The changes that affect a run with these entries. A run without entries fits every definition. */
export const met = (
  entries: Iterable<Parameters<typeof recordedBy>[0]>,
  changed: ReadonlyArray<NodeChange>
): ReadonlyArray<NodeChange> => {
  if (changed.length === 0) return []
  const recorded = new Set([...entries].flatMap(recordedBy))
  if (recorded.size > 0) recorded.add(INPUT)
  return changed.filter(({ node }) => recorded.has(node))
}

/** A message that says why a run does not fit a definition other than its own; undefined if it fits. */
export const incompatibility = (
  entries: Iterable<Parameters<typeof recordedBy>[0]>,
  own: Comparable | undefined,
  other: Comparable
): string | undefined => own === undefined ? undefined : met(entries, changes(own, other))[0]?.reason

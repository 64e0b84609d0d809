/**
 * The state of each node of a pipeline in one run, for its diagram. Pure.
 */
import { nodeOf } from "../workers/NodeAddress.ts"
import type { RunStep } from "./RunSteps.ts"

/** The classes of the diagram. A node with several paths, such as a `forEach`, shows the first class in this order that any of its paths has. */
const STATES = ["failed", "open", "completed"] as const

type NodeState = typeof STATES[number]

const STATE: Readonly<Record<RunStep["state"], NodeState>> = {
  open: "open",
  completed: "completed",
  undone: "completed",
  failed: "failed",
  "timed-out": "failed",
  cancelled: "failed"
}

/** The states of the nodes by their addresses. Nodes that have not begun are absent. */
export const nodeStates = (steps: Iterable<Pick<RunStep, "path" | "state">>): ReadonlyMap<string, NodeState> => {
  const nodes = new Map<string, NodeState>()
  for (const { path, state: of } of steps) {
    if (path.endsWith("~undo")) continue
    const address = nodeOf(path)
    const [state, other] = [STATE[of], nodes.get(address)]
    if (other === undefined || STATES.indexOf(state) < STATES.indexOf(other)) nodes.set(address, state)
  }
  return nodes
}

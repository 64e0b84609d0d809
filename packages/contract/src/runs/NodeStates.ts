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

/** Attempts have their own paths: `charge~2`. The wait before an attempt is `charge~2~0`. */
const ATTEMPT = /(?:~\d+)+$/
const BACKOFF = /~\d+~\d+$/

/** The states of the nodes by their addresses, computed from the steps in order. Nodes that have not begun are absent. */
export const nodeStates = (steps: Iterable<Pick<RunStep, "path" | "kind" | "state">>): ReadonlyMap<string, NodeState> => {
  /** The state of each path's latest attempt. */
  const paths = new Map<string, NodeState>()
  for (const { kind, path, state } of steps) {
    if (kind === "undo" || path.includes("~undo")) continue
    // The next attempt follows the wait.
    paths.set(path.replace(ATTEMPT, ""), BACKOFF.test(path) ? "open" : STATE[state])
  }
  const nodes = new Map<string, NodeState>()
  for (const [path, state] of paths) {
    const address = nodeOf(path)
    const other = nodes.get(address)
    if (other === undefined || STATES.indexOf(state) < STATES.indexOf(other)) nodes.set(address, state)
  }
  return nodes
}

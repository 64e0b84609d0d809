/**
 * The nodes of a run, for its graph: how they look, the texts in their boxes, and their steps.
 */
import { nodeOf } from "@stint/contract/NodeAddress"
import type { GraphNode } from "@stint/contract/RunJournal"
import type { NodeProgress, NodeState } from "@stint/contract/RunProgress"
import type { RunStep } from "@stint/contract/RunSteps"
import { duration } from "../format/Format.ts"
import type { Tone } from "../jobs/JobStates.ts"

const STATES: Readonly<Record<NodeState, readonly [Tone | undefined, string]>> = {
  "-": [undefined, "Not begun"],
  open: ["running", "Open"],
  completed: ["done", "Completed"],
  failed: ["failed", "Failed"],
  skipped: ["ended", "Skipped"]
}

const WAITS: ReadonlySet<string> = new Set(["waitFor", "sleep"])

/** The look of a node, and the word for its state. A node that has not begun has no special look. */
export const stateOf = ({ kind, state }: Pick<NodeProgress, "kind" | "state">): readonly [Tone | undefined, string] =>
  state === "open" && WAITS.has(kind) ? ["waiting", "Waits"] : STATES[state]

/** How long a node took, or has taken until `now`. Undefined if this is not recorded, as is the case for the first step. */
export const tookOf = ({ endedAt, startedAt, state }: NodeProgress, now: number): number | undefined => {
  if (startedAt === undefined || state === "-" || state === "skipped") return undefined
  const ended = endedAt ?? (state === "open" ? now : undefined)
  return ended === undefined || ended === startedAt ? undefined : ended - startedAt
}

/** The second line in the box of a node: `forEach shrink, 3 of 12`. */
export const lineOf = (node: NodeProgress, now: number): string => {
  const { kind, note, state } = node
  if (state === "-") return kind
  // The note of a leaf is an error, an event or a job, which the inspector shows.
  const isCount = kind.startsWith("forEach") || kind === "branch"
  const took = tookOf(node, now)
  if (isCount && note !== undefined) return `${kind}, ${note}`
  return `${kind}, ${state === "completed" && took !== undefined ? duration(took) : stateOf(node)[1].toLowerCase()}`
}

/** The steps of a node, in the order in which they began: its items and its compensation. */
export const stepsOf = (steps: ReadonlyArray<RunStep>, address: string): ReadonlyArray<RunStep> =>
  steps.filter(({ path }) => nodeOf(path) === address)

/** The open waits for events. */
export const openWaits = (steps: ReadonlyArray<RunStep>): ReadonlyArray<RunStep & Required<Pick<RunStep, "event">>> =>
  steps.flatMap((step) => step.state === "open" && step.event !== undefined ? [{ ...step, event: step.event }] : [])

/** The recorded output of a node; for a list, the outputs of its items in order. Undefined if there is none. */
export const outputOf = (steps: ReadonlyArray<RunStep>): unknown => {
  const recorded = steps.filter(({ kind, output }) => output !== undefined && kind !== "undo")
  const items = recorded.filter(({ path }) => path.endsWith("]"))
  if (items.length > 0) return Object.fromEntries(items.map(({ output, path }) => [path, output]))
  return recorded.at(-1)?.output
}

/** The addresses of the nodes that a run has recorded. */
export const recordedOf = (steps: ReadonlyArray<RunStep>): ReadonlySet<string> => new Set(steps.map(({ path }) => nodeOf(path)))

/**
 * The inputs that were computed and so recorded with the steps of a node: one value or, for a list, the values of its items by path. Undefined if there are
 * none.
 */
export const inputOf = (steps: ReadonlyArray<RunStep>): unknown => {
  const recorded = steps.flatMap(({ input, kind, path }) => {
    if (kind === "undo" || input === undefined || "from" in input) return []
    return [[path, "value" in input ? input.value : `${input.text}...`] as const]
  })
  return recorded.some(([path]) => path.includes("[")) ? Object.fromEntries(recorded) : recorded.at(-1)?.[1]
}

/** The logs of a node: the lines that its steps wrote in the run, or those of its job. Undefined for a node that runs no code, or several jobs. */
export const logOf = (
  { address, endpoint: target, kind }: GraphNode,
  steps: ReadonlyArray<RunStep>,
  run: { readonly endpoint: string; readonly id: string }
): { readonly endpoint: string; readonly job: string; readonly step: string | undefined } | undefined => {
  const job = jobOf(steps)
  if (job !== undefined) return { endpoint: job.endpoint, job: job.id, step: undefined }
  const isCode = kind === "step" || kind === "stream" || (kind === "forEach" && target === undefined)
  return isCode ? { endpoint: run.endpoint, job: run.id, step: address } : undefined
}

/** The job whose output is the node's output, if the node runs one job. */
export const jobOf = (steps: ReadonlyArray<RunStep>): { readonly endpoint: string; readonly id: string } | undefined => {
  const last = steps.findLast(({ job, kind, path }) => job !== undefined && kind !== "undo" && !path.includes("["))
  return last?.job === undefined || last.endpoint === undefined ? undefined : { endpoint: last.endpoint, id: last.job }
}

/** The node to show first: a failed one, or otherwise one that waits for an event. */
export const mostUrgent = (nodes: ReadonlyArray<NodeProgress>): string | undefined =>
  (nodes.find(({ kind, state }) => state === "failed" && kind !== "all" && kind !== "branch") ??
    nodes.find(({ kind, state }) => state === "open" && kind === "waitFor"))?.node

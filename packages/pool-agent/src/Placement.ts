/**
 * Decides which machine starts the next worker. Pure.
 *
 * Of the machines that can run the worker, the agent with the most free slots gets it. The platform's own machine gets it only if no agent can run
 * it, because that machine also serves the database. {@link obstacleOf} says why a machine cannot run a worker.
 */
import type { AgentCapacity } from "@stint/contract/Agent"
import type { EndpointSource } from "@stint/contract/Endpoint"
import { type Labels, labelText } from "@stint/contract/Placement"
import { blockersOf, shortageOf } from "@stint/pool/Capacity"
import { reservationOf, type StartRequest } from "@stint/pool/WorkerPool"

/** A worker's requirements for its machine. */
export interface Needs {
  readonly endpoint: string
  readonly type: EndpointSource["type"]
  /** Whether it runs from files on the platform's machine. */
  readonly needsFiles: boolean
  /** Whether it uses the platform's model cache. */
  readonly needsModel: boolean
  /** The named volumes of a process. */
  readonly volumes: ReadonlyArray<string>
  /** The labels that its machine must have. */
  readonly labels: Labels
  readonly gpus: number | "all"
  readonly cpus: number
  readonly memoryBytes: number
}

/** The needs of a worker. */
export const needsOf = ({ code, endpoint, model }: Pick<StartRequest, "code" | "endpoint" | "model">): Needs => {
  const { source } = endpoint
  const common = {
    endpoint: endpoint.id,
    type: source.type,
    needsFiles: source.type === "handler" && code === undefined,
    needsModel: model !== undefined,
    labels: endpoint.placement?.labels ?? {}
  }
  const { cpus, gpus, memoryBytes } = reservationOf(source) ?? { cpus: 0, gpus: 0, memoryBytes: 0 }
  // The operator of each machine decides which volumes its engine mounts.
  const volumes = source.type === "external" || source.type === "container" ? [] : source.volumes ?? []
  return { ...common, volumes: volumes.map((volume) => volume.source), gpus, cpus, memoryBytes }
}

/** A connected agent. */
export interface Machine {
  readonly name: string
  readonly capacity: AgentCapacity
  readonly supports: ReadonlyArray<string>
  readonly volumes: ReadonlyArray<string>
  readonly labels: Labels
  /** The endpoints that its key permits. */
  readonly endpoints: "all" | ReadonlyArray<string>
  readonly isDraining: boolean
  /** The needs of the workers that it runs or is about to run. */
  readonly workers: ReadonlyArray<Needs>
}

/** Whether a machine with `labels` has all those that a worker needs. */
export const hasLabels = (labels: Labels, needed: Labels): boolean =>
  Object.entries(needed).every(([name, value]) => Object.hasOwn(labels, name) && labels[name] === value)

/** Why an agent with the labels cannot run the worker, as the end of a sentence that begins with its name; undefined if it can. */
export const obstacleOf = (needs: Needs, machine: Machine): string | undefined => {
  const { capacity, endpoints, isDraining, supports, volumes, workers } = machine
  if (isDraining) return "is being drained"
  if (endpoints !== "all" && !endpoints.includes(needs.endpoint)) return "has a key that does not permit this endpoint"
  if (!supports.includes(needs.type)) return `cannot start workers with the source "${needs.type}"`
  if (needs.needsFiles) return "does not have the files of this handler (deploy it, so that it has a release)"
  if (needs.needsModel) return "does not have the platform's cache of models"
  const missing = needs.volumes.find((volume) => !volumes.includes(volume))
  if (missing !== undefined) return `has no volume "${missing}"`
  const shortage = shortageOf(needs, capacity, workers)
  if (shortage !== undefined) return shortage
  return workers.length >= capacity.workers ? `runs ${workers.length} of at most ${capacity.workers} workers` : undefined
}

/** The workers of the same endpoint, without which the machine could run the worker (`Capacity.blockersOf`). `workers`: those of the machine. */
export const blockersOn = (
  needs: Needs,
  machine: Machine,
  workers: ReadonlyArray<{ readonly id: string; readonly needs: Needs }>
): ReadonlyArray<string> =>
  blockersOf(
    workers,
    (one) => one.needs.endpoint === needs.endpoint,
    (rest) => obstacleOf(needs, { ...machine, workers: rest.map((one) => one.needs) }) === undefined
  ).map(({ id }) => id)

const freePlaces = ({ capacity, workers }: Machine): number => capacity.workers - workers.length

/** The platform's own machine. */
export interface LocalMachine {
  readonly workers: number
  /** Undefined: no limit. */
  readonly limit: number | undefined
  /** "any" if its pool places workers by label itself. */
  readonly labels: Labels | "any"
  /** Why its pool has no room for the worker (`WorkerPool.obstacleOf`). */
  readonly obstacle?: () => string | undefined
}

export type Placement =
  | { readonly _tag: "Agent"; readonly name: string }
  | { readonly _tag: "Local" }
  /** `problem`: each machine's reason, without a full stop. */
  | { readonly _tag: "None"; readonly problem: string }

/** The maximum number of agents whose reasons an error lists. */
const SHOWN = 5

/** Why the platform's machine cannot run the worker; undefined if it can. */
const localObstacle = (needed: Labels, { labels, limit, obstacle, workers }: LocalMachine): string | undefined => {
  if (limit === 0) return "the platform's machine runs no workers (STINT_LOCAL_WORKERS is 0)"
  if (labels !== "any" && !hasLabels(labels, needed)) {
    return `the platform's machine does not have the labels ${labelText(needed)} (STINT_LOCAL_LABELS)`
  }
  if (limit !== undefined && workers >= limit) {
    return `the platform's machine runs ${workers} of at most ${limit} workers (STINT_LOCAL_WORKERS)`
  }
  const problem = obstacle?.()
  return problem === undefined ? undefined : `the platform's machine ${problem}`
}

/** The problem when no agent has the labels, with the way out. */
const noLabels = (needed: Labels): string =>
  `no connected agent has the labels ${labelText(needed)} (start one with them: stint agent ${
    Object.entries(needed).map(([name, value]) => `--label ${name}=${value}`).toSorted().join(" ")
  }; or change placement.labels of the endpoint)`

const count = (number: number, one: string, many: string): string => `${number} more ${number === 1 ? one : many}`

/** Chooses the machine. */
export const place = (needs: Needs, machines: ReadonlyArray<Machine>, local: LocalMachine): Placement => {
  const labelled = machines.filter(({ labels }) => hasLabels(labels, needs.labels))
  const judged = labelled.map((machine) => ({ machine, obstacle: obstacleOf(needs, machine) }))
  const [best] = judged.filter(({ obstacle }) => obstacle === undefined).map(({ machine }) => machine)
    .toSorted((a, b) => freePlaces(b) - freePlaces(a) || (a.name < b.name ? -1 : 1))
  if (best !== undefined) return { _tag: "Agent", name: best.name }
  const own = localObstacle(needs.labels, local)
  if (own === undefined) return { _tag: "Local" }
  if (labelled.length === 0 && Object.keys(needs.labels).length > 0) {
    return { _tag: "None", problem: `${noLabels(needs.labels)}; ${own}` }
  }
  const others = judged.slice(0, SHOWN).map(({ machine, obstacle }) => `agent ${machine.name} ${obstacle}`)
  const hidden = judged.length - SHOWN
  const unlabelled = machines.length - labelled.length
  return {
    _tag: "None",
    problem: [
      own,
      ...(judged.length === 0 ? ["no agent is connected (stint agents)"] : others),
      ...(hidden > 0 ? [`${count(hidden, "agent has", "agents have")} no room either`] : []),
      ...(unlabelled > 0
        ? [`${count(unlabelled, "agent does", "agents do")} not have the labels ${labelText(needs.labels)}`]
        : [])
    ].join("; ")
  }
}

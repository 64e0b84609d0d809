/**
 * The connection of one agent: its epoch, its lease and its workers. Pure, except for the workers.
 *
 * ```
 *   join --> epoch --report: the lease is renewed--> epoch --10 s without a renewal--> over
 *                  \--the same agent joins again--> over
 * ```
 *
 * Only a call that proves that the agent received an earlier response renews the lease. Otherwise an agent whose requests arrive, but which receives no
 * responses, would be given workers that it never starts.
 *
 * A call whose epoch is over, or a report that is older than one that has arrived, is refused: the agent joins again, and its next report describes
 * its current state.
 */
import type { AgentOrders, AgentReport, AgentWorkerReport } from "@stint/contract/Agent"
import { AgentRefused } from "@stint/pool/Agents"
import * as Latch from "effect/Latch"
import type { Machine } from "./Placement.ts"
import type { RemoteWorker } from "./RemoteWorker.ts"

/**
 * How long an epoch lasts without a renewal. An agent reports at least every 3 s, and repeats a report after 2.5 s, so two reports may be lost. A
 * lost machine's workers count until the epoch ends. Milliseconds.
 */
export const LEASE_MILLIS = 10_000

/** The machine, as a report describes it. */
export type Facts = Pick<AgentReport, "capacity" | "isDrained" | "isLeaving" | "labels" | "supports" | "version" | "volumes">

export interface Connection {
  readonly name: string
  readonly instance: string
  readonly run: string
  /** The processes of the agent before this one. */
  readonly earlierRuns: ReadonlyArray<string>
  readonly epoch: string
  readonly key: { readonly id: string; readonly endpoints: "all" | ReadonlyArray<string> }
  /** When the agent joined. Milliseconds since 1970. */
  readonly joinedAt: number
  /** By id. */
  readonly workers: Map<string, RemoteWorker>
  /** The reported workers that the platform does not want, because the key does not permit their endpoints. */
  unwanted: ReadonlyArray<AgentWorkerReport>
  /** Opened when the orders change. */
  readonly changed: Latch.Latch
  facts: Facts
  /** Whether an operator has drained the machine. */
  isDrained: boolean
  /** The number of the latest report. */
  number: number
  revision: number
  /** The monotonic time of the latest response that the agent is known to have received. The lease begins then. */
  heardAt: number
  /** The monotonic time of the latest call. */
  calledAt: number
  /** The monotonic times of the responses that may have been lost, by the numbers of their reports. */
  readonly responses: Map<number, number>
}

export const make = (
  input: Pick<Connection, "name" | "earlierRuns" | "epoch" | "joinedAt" | "key" | "workers" | "heardAt" | "isDrained"> & {
    readonly report: AgentReport
  }
): Connection => {
  const { report, ...rest } = input
  return {
    ...rest,
    instance: report.instance,
    run: report.run,
    unwanted: [],
    changed: Latch.makeUnsafe(),
    facts: report,
    number: report.number,
    revision: 0,
    calledAt: input.heardAt,
    responses: new Map()
  }
}

/** A report has arrived, and its response is sent now. Renews the lease. */
export const heard = (connection: Connection, { answered, number }: AgentReport, now: number): void => {
  const { responses } = connection
  const sentAt = answered === undefined ? undefined : responses.get(answered)
  if (answered !== undefined && sentAt !== undefined) {
    connection.heardAt = Math.max(connection.heardAt, sentAt)
    for (const earlier of responses.keys()) if (earlier <= answered) responses.delete(earlier)
  }
  connection.number = number
  connection.calledAt = now
  responses.set(number, now)
}

/** The orders have changed. */
export const touch = (connection: Connection): void => {
  connection.revision += 1
  connection.changed.openUnsafe()
}

/** Whether the agent receives no more workers. */
export const isDraining = ({ facts, isDrained }: Connection): boolean => isDrained || facts.isLeaving

/** The machine as the placement sees it. */
export const machineOf = (connection: Connection): Machine => ({
  name: connection.name,
  capacity: connection.facts.capacity,
  supports: connection.facts.supports,
  volumes: connection.facts.volumes,
  labels: connection.facts.labels,
  endpoints: connection.key.endpoints,
  isDraining: isDraining(connection),
  workers: [...connection.workers.values()].map(({ needs }) => needs)
})

/** The response to a report. `at`: milliseconds since 1970. */
export const ordersOf = (connection: Connection, platform: string, at: number): AgentOrders => ({
  platform,
  epoch: connection.epoch,
  leaseMs: LEASE_MILLIS,
  revision: connection.revision,
  at,
  isDrained: connection.isDrained,
  workers: [
    ...[...connection.workers.values()].map((worker) => worker.order()),
    // The agent ends a running worker that it should forget.
    ...connection.unwanted.map(({ id, printed }) => ({ id, wish: "forget" as const, taken: printed }))
  ]
})

/** Whether the key permits workers of this endpoint. */
export const permits = ({ key }: Connection, endpoint: string): boolean =>
  key.endpoints === "all" || key.endpoints.includes(endpoint)

/** The operator's request for the machine, until a report confirms that the agent has stored it. */
export interface Unstored {
  readonly instance: string
  readonly isDrained: boolean
}

/** Undefined once a report has confirmed it. */
export const unstoredOf = ({ facts, instance, isDrained }: Connection): Unstored | undefined =>
  facts.isDrained === isDrained ? undefined : { instance, isDrained }

const over = new AgentRefused({
  problem: "The epoch of this connection is over.",
  hint: "Join again. `stint agent` does this by itself."
})

/** Why a call with this epoch and key is refused; undefined if it is accepted. */
export const refusal = (connection: Connection | undefined, epoch: string, key: string): AgentRefused | undefined =>
  connection === undefined || connection.epoch !== epoch || connection.key.id !== key ? over : undefined

/** How many earlier processes of an agent are remembered. */
const EARLIER_RUNS = 10

/** The processes before the one that is joining. */
export const runsBefore = (before: Connection | undefined, { run }: AgentReport): ReadonlyArray<string> =>
  before === undefined ? [] : before.run === run ? before.earlierRuns : [...before.earlierRuns, before.run].slice(-EARLIER_RUNS)

/** Why an agent cannot join again, or take over its connection after a restart; undefined if it can. */
export const refusalOfJoin = (
  { earlierRuns, instance, name, number, run }: Connection,
  report: AgentReport
): AgentRefused | undefined => {
  if (instance !== report.instance) {
    return new AgentRefused({
      problem: `Another agent named ${name} is connected.`,
      hint: "Give this one another name (stint agent --name NAME), or stop the other one and wait 10 s."
    })
  }
  // A process that has ended does not call again, so both are running.
  if (earlierRuns.includes(report.run)) {
    return new AgentRefused({
      problem: `Another agent with this one's data folder, or a copy of it, is connected as ${name}.`,
      hint: "Stop this one, and start it with an empty folder (STINT_DATA_DIR) and another name (--name)."
    })
  }
  return run === report.run && report.number <= number ? over : undefined
}

/** Why a report is refused; undefined if it is accepted. A delayed copy describes a state that is no longer true. */
export const refusalOfReport = (connection: Connection | undefined, report: AgentReport, key: string): AgentRefused | undefined =>
  refusal(connection, report.epoch ?? "", key) ??
    (connection !== undefined && (connection.run !== report.run || report.number <= connection.number) ? over : undefined)

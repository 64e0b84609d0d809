/**
 * The agents that have called: their connections with leases, and the agents that were lost.
 *
 * ```
 *   join --> connected --the lease ends--> lost --join--> connected
 *                                            \--a day later--> forgotten
 * ```
 */
import { type Agent, AgentName, type AgentReport } from "@stint/contract/Agent"
import { AgentRefused } from "@stint/pool/Agents"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Connections from "./Connection.ts"
import { type Connection, LEASE_MILLIS } from "./Connection.ts"

/** How long a lost agent is listed. Milliseconds. */
const LISTED_MILLIS = 86_400_000

/** The maximum number of listed agents. A caller with an agent's key can invent any number of names. */
const MAX_AGENTS = 1_000

/** If a lease is checked this late, the platform was suspended, so the agent gets a new lease. Milliseconds. */
const SUSPENDED_MILLIS = 5_000

/** An agent whose lease has ended although it called within this time receives no responses. Longer than the time between two calls. Milliseconds. */
const DEAF_MILLIS = 5_000

/** An agent that has called. */
interface Known {
  /** Undefined while it is lost. */
  connection: Connection | undefined
  /** Its view when it was lost. */
  last: Agent | undefined
  /** The operator's request that it had not confirmed when it was lost. */
  unstored: Connections.Unstored | undefined
}

const namesOf = (count: number, one: string): string => `${count} ${one}${count === 1 ? "" : "s"}`

/** See the comment at the top of this file. */
export interface AgentTable {
  /** Identifies the process of the platform. */
  readonly platform: string
  /** The connection of an agent; undefined if it is not connected. */
  readonly find: (name: string) => Connection | undefined
  readonly connected: () => ReadonlyArray<Connection>
  /** Begins an epoch, or refuses the agent. The new connection takes over the workers of the earlier one. */
  readonly join: (name: string, key: Connection["key"], report: AgentReport) => Effect.Effect<Connection, AgentRefused>
  /** The agent as an operator sees it. */
  readonly view: (connection: Connection) => Agent
  /** The connected agents, and those that were lost within a day, by name. */
  readonly list: () => ReadonlyArray<Agent>
}

/** The leases are watched until the scope closes. */
export const make = Effect.gen(function*() {
  const scope = yield* Effect.scope
  const clock = yield* Clock.Clock
  const now = () => Number(clock.currentTimeNanosUnsafe() / 1_000_000n)
  const platform = (yield* Random.nextIntBetween(0, 2 ** 40)).toString(36)
  const agents = new Map<string, Known>()
  let epochs = 0

  const viewOf = (connection: Connection): Agent => {
    const { facts: { capacity, labels, supports, version, volumes }, joinedAt, key, name, workers } = connection
    return {
      name: AgentName.make(name),
      state: Connections.isDraining(connection) ? "draining" : "connected",
      since: joinedAt,
      lastSeenAt: Math.round(clock.currentTimeMillisUnsafe() - (now() - connection.calledAt)),
      version,
      capacity,
      supports,
      volumes,
      labels,
      key: key.id,
      endpoints: key.endpoints,
      workers: [...workers.values()].map((worker) => ({ id: worker.id, endpoint: worker.endpoint, state: worker.state() }))
    }
  }

  const lose = Effect.fnUntraced(function*(known: Known, connection: Connection) {
    known.last = { ...viewOf(connection), state: "lost", since: clock.currentTimeMillisUnsafe(), workers: [] }
    known.connection = undefined
    known.unstored = Connections.unstoredOf(connection)
    const workers = [...connection.workers.values()]
    connection.workers.clear()
    connection.changed.openUnsafe()
    const isDeaf = now() - connection.calledAt < DEAF_MILLIS
    const what = isDeaf ? "has received no response" : "has not called"
    const reason = `agent ${connection.name} ${what} for ${LEASE_MILLIS / 1_000} s.`
    for (const worker of workers) worker.lose(reason)
    if (connection.facts.isLeaving && workers.length === 0) {
      return yield* Effect.logInfo(`Agent ${connection.name} has stopped.`)
    }
    yield* Effect.logWarning(
      `Agent ${connection.name} ${what} for ${LEASE_MILLIS / 1_000} s. Its ${namesOf(workers.length, "worker")} no longer ${
        workers.length === 1 ? "counts" : "count"
      }. Check its machine, and whether it can reach this platform.`
    )
  })

  /** Ends the epoch when its lease has ended. */
  const watchLease = Effect.fnUntraced(function*(known: Known, connection: Connection) {
    while (known.connection === connection) {
      const wait = connection.heardAt + LEASE_MILLIS - now()
      if (wait <= 0) return yield* lose(known, connection)
      const wakeAt = now() + wait
      yield* Effect.sleep(wait)
      // The platform was suspended, and could not respond.
      if (now() - wakeAt > SUSPENDED_MILLIS) connection.heardAt = now()
    }
  })

  /** Makes room for an agent: machines that live for only an hour join under a new name each time. */
  const forgetLongestLost = () => {
    const lost = [...agents].flatMap(([name, { connection, last }]) =>
      connection === undefined ? [{ name, at: last?.lastSeenAt ?? 0 }] : []
    )
    const [longest] = lost.toSorted((a, b) => a.at - b.at)
    if (longest !== undefined) agents.delete(longest.name)
  }

  const join = Effect.fnUntraced(function*(name: string, key: Connection["key"], report: AgentReport) {
    const known: Known = agents.get(name) ?? { connection: undefined, last: undefined, unstored: undefined }
    const before = known.connection
    const refused = before === undefined ? undefined : Connections.refusalOfJoin(before, report)
    if (refused !== undefined) return yield* refused
    if (!agents.has(name)) {
      const oldest = clock.currentTimeMillisUnsafe() - LISTED_MILLIS
      for (const [other, { connection, last }] of agents) {
        if (connection === undefined && (last?.lastSeenAt ?? 0) < oldest) agents.delete(other)
      }
      if (agents.size >= MAX_AGENTS) forgetLongestLost()
      if (agents.size >= MAX_AGENTS) {
        return yield* new AgentRefused({
          problem: `${MAX_AGENTS} agents are connected, the maximum.`,
          hint: "Stop an agent and wait 10 s, or join another node."
        })
      }
    }
    epochs += 1
    const unstored = before === undefined ? known.unstored : Connections.unstoredOf(before)
    const connection = Connections.make({
      name,
      earlierRuns: Connections.runsBefore(before, report),
      isDrained: unstored?.instance === report.instance ? unstored.isDrained : report.isDrained,
      epoch: `${platform}-${epochs}`,
      key,
      joinedAt: clock.currentTimeMillisUnsafe(),
      heardAt: now(),
      workers: before?.workers ?? new Map(),
      report
    })
    before?.changed.openUnsafe()
    // Its key may have changed.
    for (const worker of [...connection.workers.values()]) {
      if (Connections.permits(connection, worker.endpoint)) continue
      connection.workers.delete(worker.id)
      worker.lose(`the key of agent ${name} does not permit its endpoint.`)
    }
    known.connection = connection
    known.last = undefined
    agents.set(name, known)
    yield* Effect.forkIn(watchLease(known, connection), scope)
    const { capacity, version } = report
    yield* Effect.logInfo(
      `Agent ${name} (${version}) has joined: at most ${namesOf(capacity.workers, "worker")}, ${namesOf(capacity.cpus, "CPU")}, ${
        namesOf(capacity.gpus, "GPU")
      }, with ${namesOf(report.workers.length, "running worker")}.`
    )
    return connection
  })

  const table: AgentTable = {
    platform,
    find: (name) => agents.get(name)?.connection,
    connected: () => [...agents.values()].flatMap(({ connection }) => connection ?? []),
    join,
    view: viewOf,
    list: () => {
      const oldest = clock.currentTimeMillisUnsafe() - LISTED_MILLIS
      return [...agents.values()].flatMap(({ connection, last }) =>
        connection !== undefined ? [viewOf(connection)] : last !== undefined && last.lastSeenAt >= oldest ? [last] : []
      ).toSorted((a, b) => (a.name < b.name ? -1 : 1))
    }
  }
  return table
})

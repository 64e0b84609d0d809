/**
 * Runs workers on the platform's machine and on those of agents (docs/decisions/0076-agents.md). Wraps the pool of the platform's machine.
 *
 * ```
 *   autoscaler --start--> place --> the local pool
 *                            \----> an order in the next response to the agent's report
 *   agent --report--> workers of this pool: RemoteWorker
 *                     others: found orphans, which the autoscaler adopts
 * ```
 *
 * The platform stores nothing about agents: after its restart, their reports say which workers exist.
 */
import {
  type Agent,
  AGENT_PROTOCOL,
  AgentName,
  type AgentReport,
  type AgentStart,
  CHANGES_WAIT_MILLIS
} from "@stint/contract/Agent"
import { AgentRefused, Agents, type AgentsService } from "@stint/pool/Agents"
import { CodeTransfer } from "@stint/pool/CodeTransfer"
import { NoCapacity, PoolError, Unsupported } from "@stint/pool/PoolError"
import { WorkerLog } from "@stint/pool/WorkerLog"
import { type OrphanedWorker, type PoolChange, type StartRequest, WorkerPool } from "@stint/pool/WorkerPool"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as Connections from "./Connection.ts"
import { type Connection, LEASE_MILLIS } from "./Connection.ts"
import { type Needs, needsOf, place } from "./Placement.ts"
import * as RemoteWorker from "./RemoteWorker.ts"

/** Options of the pool. */
export interface Options {
  /** The maximum number of workers on the platform's machine. Default: no limit. */
  readonly localWorkers?: number | undefined
}

/** How long a lost agent is listed. Milliseconds. */
const LISTED_MILLIS = 86_400_000

/** The maximum number of listed agents. A caller with a key of an agent can invent any number of them. */
const MAX_AGENTS = 1_000

/** How long to wait for a killed worker to exit. */
const KILL_WAIT = Duration.seconds(5)

/** A lease that ends this late was not checked while the platform was suspended, so the agent gets another one. Milliseconds. */
const SUSPENDED_MILLIS = 5_000

/** An agent that has called within this time, but whose lease has ended, receives no responses. Longer than the time between two calls. Milliseconds. */
const DEAF_MILLIS = 5_000

/** An agent that has called. */
interface Known {
  /** Undefined while it is lost. */
  connection: Connection | undefined
  /** As it was when it was lost. */
  last: Agent | undefined
}

/** The needs of a worker that was started earlier: only its place is known. */
const UNKNOWN_NEEDS: Needs = {
  endpoint: "",
  type: "external",
  needsFiles: false,
  needsModel: false,
  volumes: [],
  gpus: 0,
  cpus: 0,
  memoryBytes: 0
}

const namesOf = (count: number, one: string): string => `${count} ${one}${count === 1 ? "" : "s"}`

const layerOf = Effect.fnUntraced(function*({ localWorkers }: Options) {
  const local = yield* WorkerPool
  const codes = Option.getOrUndefined(yield* Effect.serviceOption(CodeTransfer))
  const log = yield* WorkerLog
  const scope = yield* Effect.scope
  const clock = yield* Clock.Clock
  const now = () => Number(clock.currentTimeNanosUnsafe() / 1_000_000n)
  const platform = (yield* Random.nextIntBetween(0, 2 ** 40)).toString(36)
  const changes = yield* Queue.unbounded<PoolChange>()
  const closing = Latch.makeUnsafe()
  const agents = new Map<string, Known>()
  let epochs = 0
  /** The workers on the platform's machine. */
  const ownWorkers = new Set<string>()
  /** Whether a start has failed for lack of room since the last change of it. */
  let isWanting = false

  const roomChanged = () => {
    if (!isWanting) return
    isWanting = false
    Queue.offerUnsafe(changes, { _tag: "Room" })
  }

  const viewOf = (connection: Connection): Agent => {
    const { facts: { capacity, supports, version, volumes }, joinedAt, key, name, workers } = connection
    return {
      name: AgentName.make(name),
      state: Connections.isDraining(connection) ? "draining" : "connected",
      since: joinedAt,
      lastSeenAt: Math.round(clock.currentTimeMillisUnsafe() - (now() - connection.calledAt)),
      version,
      capacity,
      supports,
      volumes,
      key: key.id,
      endpoints: key.endpoints,
      workers: [...workers.values()].map((worker) => ({ id: worker.id, endpoint: worker.endpoint, state: worker.state() }))
    }
  }

  const connected = (): ReadonlyArray<Connection> => [...agents.values()].flatMap(({ connection }) => connection ?? [])

  const remove = (connection: Connection, worker: string) => {
    if (connection.workers.delete(worker)) roomChanged()
  }

  const newWorker = (
    connection: Connection,
    id: RemoteWorker.RemoteWorker["id"],
    endpoint: RemoteWorker.RemoteWorker["endpoint"],
    needs: Needs,
    start?: AgentStart
  ) => {
    const worker = RemoteWorker.make({
      agent: connection.name,
      id,
      endpoint,
      needs,
      start,
      log,
      scope,
      changed: () => {
        const current = agents.get(connection.name)?.connection
        if (current?.workers.get(id) === worker) Connections.touch(current)
      }
    })
    connection.workers.set(id, worker)
    return worker
  }

  /** Kills the worker and waits for its exit. */
  const close = ({ handle }: RemoteWorker.RemoteWorker) =>
    Effect.andThen(handle.kill, Effect.timeoutOption(Effect.interruptible(handle.exit), KILL_WAIT))

  const startOn = Effect.fnUntraced(function*(connection: Connection, request: StartRequest, needs: Needs) {
    const { code, endpoint, variables, worker: id } = request
    const worker = yield* Effect.acquireRelease(
      Effect.gen(function*() {
        const start = { endpoint, variables, ...(code === undefined ? {} : { code }) }
        const created = newWorker(connection, id, endpoint.id, needs, start)
        yield* created.attach(request)
        Connections.touch(connection)
        return created
      }),
      close
    )
    yield* worker.started
    return worker.handle
  })

  /** Counts the worker until its scope closes. */
  const countOwn = (id: string) =>
    Effect.acquireRelease(
      Effect.sync(() => void ownWorkers.add(id)),
      () =>
        Effect.sync(() => {
          ownWorkers.delete(id)
          roomChanged()
        })
    )

  const start: WorkerPool["Service"]["start"] = Effect.fn("AgentPool.start")(function*(request) {
    const { type } = request.endpoint.source
    if (!local.supports.includes(type)) return yield* new PoolError({ reason: new Unsupported({ source: type }) })
    const needs = needsOf(request)
    const found = place(needs, connected().map(Connections.machineOf), { workers: ownWorkers.size, limit: localWorkers })
    switch (found._tag) {
      case "Local":
        return yield* Effect.andThen(countOwn(request.worker), local.start(request))
      case "None":
        isWanting = true
        return yield* new PoolError({ reason: new NoCapacity({ problem: found.problem }) })
      case "Agent": {
        const connection = agents.get(found.name)?.connection
        if (connection === undefined) return yield* Effect.die(new Error(`agent ${found.name} is not connected`))
        return yield* startOn(connection, request, needs)
      }
    }
  })

  /** A worker that this platform has not started, or whose agent was lost. */
  const findOrphan = (connection: Connection, { endpoint, exit, id }: AgentReport["workers"][number]) => {
    const worker = newWorker(connection, id, endpoint, { ...UNKNOWN_NEEDS, endpoint })
    const orphan: OrphanedWorker = {
      id,
      endpoint,
      isRunning: exit === undefined,
      adopt: Effect.fnUntraced(function*(variables, mask) {
        yield* Effect.addFinalizer(() => close(worker))
        yield* worker.attach({ variables, mask })
        // The agent reports again, because what it has reported so far was not accepted.
        const current = agents.get(connection.name)?.connection
        if (current !== undefined) Connections.touch(current)
        return worker.handle
      })
    }
    Queue.offerUnsafe(changes, { _tag: "Orphan", orphan })
    return worker
  }

  /** Whether this platform runs the worker on another machine. A worker that an agent claims by mistake stays where it is. */
  const isElsewhere = (connection: Connection, id: string) =>
    ownWorkers.has(id) || connected().some((other) => other !== connection && other.workers.has(id))

  const applyWorkers = (connection: Connection, report: AgentReport) => {
    const unwanted: Array<AgentReport["workers"][number]> = []
    for (const worker of report.workers) {
      const known = connection.workers.get(worker.id)
      if (known !== undefined) known.apply(worker, report.run)
      else if (!Connections.permits(connection, worker.endpoint)) unwanted.push(worker)
      // A start that failed belongs to nobody.
      else if (worker.failure !== undefined) unwanted.push(worker)
      else if (!isElsewhere(connection, worker.id)) findOrphan(connection, worker).apply(worker, report.run)
    }
    connection.unwanted = unwanted
    const reported = new Set(report.workers.map(({ id }) => id))
    for (const worker of [...connection.workers.values()]) {
      if (!reported.has(worker.id) && worker.absent(connection.name)) remove(connection, worker.id)
    }
  }

  const lose = Effect.fnUntraced(function*(known: Known, connection: Connection) {
    known.last = { ...viewOf(connection), state: "lost", since: clock.currentTimeMillisUnsafe(), workers: [] }
    known.connection = undefined
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
      // The platform was suspended, and could not answer.
      if (now() - wakeAt > SUSPENDED_MILLIS) connection.heardAt = now()
    }
  })

  const join = Effect.fnUntraced(function*(name: string, key: Connection["key"], report: AgentReport) {
    const known: Known = agents.get(name) ?? { connection: undefined, last: undefined }
    const before = known.connection
    if (before !== undefined && before.instance !== report.instance) {
      return yield* new AgentRefused({
        problem: `Another agent with the name ${name} is connected.`,
        hint: "Give this one another name (stint agent --name NAME), or stop the other one and wait 10 s."
      })
    }
    if (!agents.has(name)) {
      const oldest = clock.currentTimeMillisUnsafe() - LISTED_MILLIS
      for (const [other, { connection, last }] of agents) {
        if (connection === undefined && (last?.lastSeenAt ?? 0) < oldest) agents.delete(other)
      }
      if (agents.size >= MAX_AGENTS) {
        return yield* new AgentRefused({
          problem: `This platform has ${MAX_AGENTS} agents, the maximum.`,
          hint: "Stop an agent. It is forgotten a day later, or when the platform restarts."
        })
      }
    }
    epochs += 1
    const connection = Connections.make({
      name,
      epoch: `${platform}-${epochs}`,
      key,
      joinedAt: clock.currentTimeMillisUnsafe(),
      heardAt: now(),
      workers: before?.workers ?? new Map(),
      report
    })
    before?.changed.openUnsafe()
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

  const report: AgentsService["report"] = Effect.fnUntraced(function*(name, key, report) {
    if (report.protocol !== AGENT_PROTOCOL) {
      return yield* new AgentRefused({
        problem:
          `This agent (${report.version}) speaks version ${report.protocol} of the agents' protocol, and this platform version ${AGENT_PROTOCOL}.`,
        hint: "Install the same version of stint on both machines."
      })
    }
    const current = agents.get(name)?.connection
    let connection: Connection
    if (report.epoch === undefined) connection = yield* join(name, key, report)
    else {
      const refused = Connections.refusalOfReport(current, report, key.id)
      if (refused !== undefined || current === undefined) return yield* refused ?? Effect.die(new Error("no connection"))
      connection = current
    }
    const wasLeaving = connection === current && connection.facts.isLeaving
    const hadRoom = connection.facts.capacity.workers
    connection.facts = report
    Connections.heard(connection, report, now())
    applyWorkers(connection, report)
    if (connection !== current || report.capacity.workers > hadRoom) roomChanged()
    return {
      orders: Connections.ordersOf(connection, platform, clock.currentTimeMillisUnsafe()),
      leaving: report.isLeaving && !wasLeaving ? [...connection.workers.values()] : []
    }
  })

  const withAgent = <A>(name: string, use: (connection: Connection) => A): Effect.Effect<Option.Option<A>> =>
    Effect.sync(() => {
      const connection = agents.get(name)?.connection
      return connection === undefined ? Option.none() : Option.some(use(connection))
    })

  const service: AgentsService = {
    list: Effect.sync(() => {
      const oldest = clock.currentTimeMillisUnsafe() - LISTED_MILLIS
      const listed = [...agents.values()].flatMap(({ connection, last }) =>
        connection !== undefined ? [viewOf(connection)] : last !== undefined && last.lastSeenAt >= oldest ? [last] : []
      )
      return {
        agents: listed.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
        local: { workers: ownWorkers.size, limit: localWorkers ?? null }
      }
    }),
    drain: (name) =>
      withAgent(name, (connection) => {
        connection.isDrained = true
        Connections.touch(connection)
        return { agent: viewOf(connection), workers: [...connection.workers.values()] }
      }),
    resume: (name) =>
      withAgent(name, (connection) => {
        connection.isDrained = false
        Connections.touch(connection)
        roomChanged()
        return viewOf(connection)
      }),
    report,
    changes: Effect.fnUntraced(function*(name, key, epoch, revision) {
      const connection = agents.get(name)?.connection
      const refused = Connections.refusal(connection, epoch, key)
      if (refused !== undefined || connection === undefined) return yield* refused ?? Effect.die(new Error("no connection"))
      connection.calledAt = now()
      // Closed before the comparison, so that no change is missed.
      connection.changed.closeUnsafe()
      if (connection.revision === revision) {
        yield* Effect.raceFirst(
          Effect.raceFirst(connection.changed.await, closing.await),
          Effect.sleep(CHANGES_WAIT_MILLIS)
        )
      }
      return { revision: connection.revision }
    }),
    code: Effect.fnUntraced(function*(hash) {
      const files = codes === undefined ? undefined : yield* codes.read(hash)
      if (files !== undefined) return { files }
      return yield* new AgentRefused({
        problem: "This node does not have the code of the release.",
        hint: "Deploy the endpoint again."
      })
    }),
    completeWaits: Effect.sync(() => void closing.openUnsafe())
  }

  const pool = WorkerPool.of({
    supports: local.supports,
    prepare: (endpoint) => localWorkers === 0 ? Effect.void : local.prepare(endpoint),
    start,
    orphans: local.orphans.map((orphan) => ({
      ...orphan,
      adopt: (variables, mask) => Effect.andThen(countOwn(orphan.id), orphan.adopt(variables, mask))
    })),
    changes: Stream.merge(Stream.fromQueue(changes), local.changes ?? Stream.empty)
  })
  return Context.make(WorkerPool, pool).pipe(Context.add(Agents, service))
})

/** The pool, and the agents. Wraps the provided pool of the platform's machine. */
export const layer = (options: Options = {}): Layer.Layer<WorkerPool, never, WorkerPool> => Layer.effectContext(layerOf(options))

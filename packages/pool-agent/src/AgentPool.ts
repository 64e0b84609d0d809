/**
 * Runs workers on the platform's machine and on the agents' machines (docs/decisions/0076-agents.md). Wraps the pool of the platform's machine.
 *
 * ```
 *   autoscaler --start--> place --> the local pool
 *                            \----> an order in the next response to the agent's report
 *   agent --report--> workers of this pool: RemoteWorker
 *                     others: found orphans, which the autoscaler adopts
 * ```
 *
 * The platform stores nothing about agents: after the platform restarts, their reports say which workers exist.
 */
import { AGENT_PROTOCOL, type AgentReport, type AgentStart, CHANGES_WAIT_MILLIS } from "@stint/contract/Agent"
import type { EndpointSource } from "@stint/contract/Endpoint"
import type { Labels } from "@stint/contract/Placement"
import { AgentRefused, Agents, type AgentsService } from "@stint/pool/Agents"
import { CodeTransfer } from "@stint/pool/CodeTransfer"
import { NoCapacity, PoolError, Unsupported } from "@stint/pool/PoolError"
import { WorkerLog } from "@stint/pool/WorkerLog"
import { type Obstacle, type OrphanedWorker, type PoolChange, type StartRequest, WorkerPool } from "@stint/pool/WorkerPool"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as AgentTable from "./AgentTable.ts"
import * as Connections from "./Connection.ts"
import type { Connection } from "./Connection.ts"
import { blockersOn, hasLabels, type Needs, needsOf, place } from "./Placement.ts"
import * as RemoteWorker from "./RemoteWorker.ts"

/** Options of the pool. */
export interface Options {
  /** The maximum number of workers on the platform's machine. Default: no limit. */
  readonly localWorkers?: number | undefined
  /** The labels of the platform's machine. Default: none. */
  readonly localLabels?: Labels | undefined
  /** Sources whose workers the local pool places by label itself, as a cluster does. Default: none. */
  readonly clusterSources?: ReadonlyArray<EndpointSource["type"]>
}

/** How long to wait for a killed worker to exit. */
const KILL_WAIT = Duration.seconds(5)

/** The needs of a worker that was started earlier: a slot, and what its agent reports. */
const needsOfOrphan = ({ endpoint, reserved = { gpus: 0, cpus: 0, memoryBytes: 0 } }: AgentReport["workers"][number]): Needs => ({
  endpoint,
  type: "external",
  needsFiles: false,
  needsModel: false,
  volumes: [],
  labels: {},
  ...reserved
})

const noCode = new AgentRefused({
  problem: "This agent has no worker to start with this code.",
  hint:
    "`stint agent` asks only for code that it needs. Its connection may have been lost in the meantime; it joins again by itself."
})

const layerOf = Effect.fnUntraced(function*({ clusterSources = [], localLabels = {}, localWorkers }: Options) {
  const local = yield* WorkerPool
  const codes = Option.getOrUndefined(yield* Effect.serviceOption(CodeTransfer))
  const log = yield* WorkerLog
  const scope = yield* Effect.scope
  const clock = yield* Clock.Clock
  const now = () => Number(clock.currentTimeNanosUnsafe() / 1_000_000n)
  const changes = yield* Queue.unbounded<PoolChange>()
  const closing = Latch.makeUnsafe()
  const agents = yield* AgentTable.make
  /** The workers on the platform's machine, with their endpoints. */
  const ownWorkers = new Map<string, string>()
  /** Whether a start has failed for lack of room since the room last changed. */
  let isWanting = false

  const roomChanged = () => {
    if (!isWanting) return
    isWanting = false
    Queue.offerUnsafe(changes, { _tag: "Room" })
  }

  const remove = (connection: Connection, worker: RemoteWorker.RemoteWorker) => {
    if (connection.workers.delete(worker.id) && !worker.lacksRoom()) roomChanged()
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
        const current = agents.find(connection.name)
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
    /** Whether the caller has the handle, and processes the exit. */
    let isStarted = false
    const worker = yield* Effect.acquireRelease(
      Effect.gen(function*() {
        const start = { endpoint, variables, ...(code === undefined ? {} : { code }) }
        const created = newWorker(connection, id, endpoint.id, needs, start)
        yield* created.attach(request)
        Connections.touch(connection)
        return created
      }),
      (created) => isStarted ? close(created) : Effect.andThen(close(created), created.handle.forget ?? Effect.void)
    )
    yield* worker.started
    isStarted = true
    return worker.handle
  })

  /** Counts the worker until its scope closes. */
  const countOwn = (id: string, endpoint: string) =>
    Effect.acquireRelease(
      Effect.sync(() => void ownWorkers.set(id, endpoint)),
      () =>
        Effect.sync(() => {
          ownWorkers.delete(id)
          roomChanged()
        })
    )

  /** The workers of an endpoint, without which a machine could run another one of its workers. `own`: those on the platform's machine. */
  const blockers = (needs: Needs, own: ReadonlyArray<string>): ReadonlyArray<string> => {
    if (own.length > 0) return own
    for (const connection of agents.connected()) {
      const found = blockersOn(needs, Connections.machineOf(connection), [...connection.workers.values()])
      if (found.length > 0) return found
    }
    return []
  }

  const start: WorkerPool["Service"]["start"] = Effect.fn("AgentPool.start")(function*(request) {
    const { type } = request.endpoint.source
    if (!local.supports.includes(type)) return yield* new PoolError({ reason: new Unsupported({ source: type }) })
    const needs = needsOf(request)
    const seen: { obstacle?: Obstacle | undefined } = {}
    const isFull = localWorkers !== undefined && ownWorkers.size >= localWorkers
    const found = place(needs, agents.connected().map(Connections.machineOf), {
      workers: ownWorkers.size,
      limit: localWorkers,
      labels: clusterSources.includes(type) ? "any" : localLabels,
      obstacle: () => {
        seen.obstacle = local.obstacleOf?.(request.endpoint)
        return seen.obstacle?.problem
      }
    })
    switch (found._tag) {
      case "Local":
        return yield* Effect.andThen(countOwn(request.worker, needs.endpoint), local.start(request))
      case "None": {
        isWanting = true
        const ofEndpoint = [...ownWorkers].filter(([, endpoint]) => endpoint === needs.endpoint).map(([id]) => id)
        const blockedBy = blockers(needs, isFull ? ofEndpoint.slice(0, 1) : seen.obstacle?.blockedBy ?? [])
        return yield* new PoolError({ reason: new NoCapacity({ problem: found.problem, blockedBy }) })
      }
      case "Agent": {
        const connection = agents.find(found.name)
        if (connection === undefined) return yield* Effect.die(new Error(`agent ${found.name} is not connected`))
        return yield* startOn(connection, request, needs)
      }
    }
  })

  /** A worker that this platform has not started, or whose agent was lost. */
  const findOrphan = (connection: Connection, reported: AgentReport["workers"][number]) => {
    const { endpoint, exit, id } = reported
    const worker = newWorker(connection, id, endpoint, needsOfOrphan(reported))
    const orphan: OrphanedWorker = {
      id,
      endpoint,
      isRunning: exit === undefined,
      adopt: Effect.fnUntraced(function*(variables, mask) {
        yield* Effect.addFinalizer(() => close(worker))
        yield* worker.attach({ variables, mask })
        // The agent must report again, because the lines that it has sent so far were not accepted.
        const current = agents.find(connection.name)
        if (current !== undefined) Connections.touch(current)
        return worker.handle
      })
    }
    Queue.offerUnsafe(changes, { _tag: "Orphan", orphan })
    return worker
  }

  /** Whether the worker runs on another machine of this platform. If an agent claims it by mistake, it stays where it is. */
  const isElsewhere = (connection: Connection, id: string) =>
    ownWorkers.has(id) || agents.connected().some((other) => other !== connection && other.workers.has(id))

  const applyWorkers = (connection: Connection, report: AgentReport) => {
    const unwanted: Array<AgentReport["workers"][number]> = []
    for (const worker of report.workers) {
      const known = connection.workers.get(worker.id)
      if (known !== undefined) known.apply(worker, report.run)
      else if (!Connections.permits(connection, worker.endpoint)) unwanted.push(worker)
      // A failed start has left no worker to adopt.
      else if (worker.failure !== undefined) unwanted.push(worker)
      else if (!isElsewhere(connection, worker.id)) findOrphan(connection, worker).apply(worker, report.run)
    }
    connection.unwanted = unwanted
    const reported = new Set(report.workers.map(({ id }) => id))
    for (const worker of [...connection.workers.values()]) {
      if (!reported.has(worker.id) && worker.absent(connection.name)) remove(connection, worker)
    }
  }

  const report: AgentsService["report"] = Effect.fnUntraced(function*(name, key, report) {
    if (report.protocol !== AGENT_PROTOCOL) {
      return yield* new AgentRefused({
        problem:
          `This agent (${report.version}) uses version ${report.protocol} of the agents' protocol, and this platform uses version ${AGENT_PROTOCOL}.`,
        hint: "Install the same version of stint on both machines."
      })
    }
    const current = agents.find(name)
    let connection: Connection
    if (report.epoch === undefined) connection = yield* agents.join(name, key, report)
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
      orders: Connections.ordersOf(connection, agents.platform, clock.currentTimeMillisUnsafe()),
      leaving: report.isLeaving && !wasLeaving ? [...connection.workers.values()] : []
    }
  })

  const withAgent = <A>(name: string, use: (connection: Connection) => A): Effect.Effect<Option.Option<A>> =>
    Effect.sync(() => {
      const connection = agents.find(name)
      return connection === undefined ? Option.none() : Option.some(use(connection))
    })

  const service: AgentsService = {
    list: Effect.sync(() => ({
      agents: agents.list(),
      local: { workers: ownWorkers.size, limit: localWorkers ?? null, labels: localLabels }
    })),
    drain: (name) =>
      withAgent(name, (connection) => {
        connection.isDrained = true
        Connections.touch(connection)
        return { agent: agents.view(connection), workers: [...connection.workers.values()] }
      }),
    resume: (name) =>
      withAgent(name, (connection) => {
        connection.isDrained = false
        Connections.touch(connection)
        roomChanged()
        return agents.view(connection)
      }),
    report,
    changes: Effect.fnUntraced(function*(name, key, epoch, revision) {
      const connection = agents.find(name)
      const refused = Connections.refusal(connection, epoch, key)
      if (refused !== undefined || connection === undefined) return yield* refused ?? Effect.die(new Error("no connection"))
      connection.calledAt = now()
      // The latch is closed before the comparison, so that no change is missed.
      connection.changed.closeUnsafe()
      if (connection.revision === revision) {
        yield* Effect.raceFirst(
          Effect.raceFirst(connection.changed.await, closing.await),
          Effect.sleep(CHANGES_WAIT_MILLIS)
        )
      }
      return { revision: connection.revision }
    }),
    code: Effect.fnUntraced(function*(name, key, hash) {
      const connection = agents.find(name)
      const isNeeded = connection?.key.id === key && [...connection.workers.values()].some((worker) => worker.code() === hash)
      if (!isNeeded) return yield* noCode
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
    prepare: (endpoint) =>
      localWorkers === 0 ||
        (!clusterSources.includes(endpoint.source.type) && !hasLabels(localLabels, endpoint.placement?.labels ?? {}))
        ? Effect.void
        : local.prepare(endpoint),
    start,
    orphans: local.orphans.map((orphan) => ({
      ...orphan,
      adopt: (variables, mask) => Effect.andThen(countOwn(orphan.id, orphan.endpoint), orphan.adopt(variables, mask))
    })),
    changes: Stream.merge(Stream.fromQueue(changes), local.changes ?? Stream.empty)
  })
  return Context.make(WorkerPool, pool).pipe(Context.add(Agents, service))
})

/** The pool, and the agents. Wraps the provided pool of the platform's machine. */
export const layer = (options: Options = {}): Layer.Layer<WorkerPool, never, WorkerPool> => Layer.effectContext(layerOf(options))

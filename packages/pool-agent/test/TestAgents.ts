/** A platform and its agents in one process. The network between them has faults: lost requests and responses, repeated and late reports. */
import { it } from "@effect/vitest"
import type { AgentReport } from "@stint/contract/Agent"
import { WorkerId } from "@stint/contract/Ids"
import * as Agent from "@stint/pool-agent/Agent"
import * as AgentOutput from "@stint/pool-agent/AgentOutput"
import * as AgentPool from "@stint/pool-agent/AgentPool"
import { CALL_LIMIT, LinkError, type PlatformLink } from "@stint/pool-agent/PlatformLink"
import { Agents, type AgentsService } from "@stint/pool/Agents"
import * as MemoryWorkerPool from "@stint/pool/MemoryWorkerPool"
import { NoCapacity, PoolError, SpawnFailed } from "@stint/pool/PoolError"
import { BEHAVIOUR, endpointOf, resolvedOf, runScripted } from "@stint/pool/testing"
import { type PullListener, type StartRequest, WorkerPool } from "@stint/pool/WorkerPool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"

/** The platform's own machine, which starts nothing. */
const layerNoLocal = Layer.succeed(
  WorkerPool,
  WorkerPool.of({
    supports: ["handler", "command", "container"],
    prepare: () => Effect.void,
    start: () => Effect.fail(new PoolError({ reason: new NoCapacity({ problem: "the local pool was asked" }) })),
    orphans: []
  })
)

/** The platform's side. */
export const layerPlatform = (localWorkers: number | undefined = 0) =>
  AgentPool.layer({ localWorkers }).pipe(Layer.provide(layerNoLocal))

/**
 * Workers that execute the behaviour in their variables. Some commands fail: `missing` cannot be started, `full` finds no room, the start of `slow`
 * never ends, no request to `hung` ever completes, and `pulled` waits until the test ends the pull of its image.
 */
const layerScripted: Layer.Layer<WorkerPool | MemoryWorkerPool.Faults> = Layer.effect(
  WorkerPool,
  Effect.gen(function*() {
    const pool = yield* WorkerPool
    return WorkerPool.of({
      ...pool,
      start: (request) => {
        const { source } = request.endpoint
        switch (source.type === "command" ? source.command[0] : undefined) {
          case "missing":
            return Effect.fail(
              new PoolError({
                reason: new SpawnFailed({ path: "missing", problem: "there is no such file", hint: "Create it." })
              })
            )
          case "full":
            return Effect.fail(new PoolError({ reason: new NoCapacity({ problem: "it is full" }) }))
          case "pulled":
            return Effect.andThen(pullNow(request.pull), pool.start(request))
          case "slow":
            return Effect.never
          case "hung":
            return Effect.map(pool.start(request), (handle) => ({
              ...handle,
              resources: Effect.never,
              drain: Effect.never,
              kill: Effect.never
            }))
          default:
            return pool.start(request)
        }
      }
    })
  })
).pipe(Layer.provideMerge(MemoryWorkerPool.layer(runScripted, ["handler", "command", "container"])))

/** The pull of the image of a `pulled` worker. Reset it before the worker starts. */
export const pull = { doneLayers: 0, isEnded: false }

const pullNow = (listener: PullListener | undefined) =>
  Effect.sync(() =>
    listener?.began(() => ({ layers: 3, doneLayers: pull.doneLayers, bytes: 90, doneBytes: 30 * pull.doneLayers }))
  ).pipe(
    Effect.andThen(Effect.repeat(Effect.sleep(10), { until: () => pull.isEnded })),
    Effect.ensuring(Effect.sync(() => listener?.ended())),
    // The creation of the container.
    Effect.andThen(Effect.sleep(500))
  )

/** The faults of the network between an agent and the platform. */
export interface Network {
  /** Requests do not arrive. */
  isCut: boolean
  /** How many of the next reports lose their responses. */
  loseAnswers: number
  /** How many of the next reports arrive twice. */
  repeat: number
  /** Bytes per second from the agent to the platform. Undefined: no limit. */
  uplink?: number
  /** Every report that arrived. */
  readonly reports: Array<AgentReport>
  /** The number of orders to start a worker, in all responses that arrived. */
  starts: number
}

export const network = (): Network => ({ isCut: false, loseAnswers: 0, repeat: 0, reports: [], starts: 0 })

const unreachable = new LinkError({ kind: "unreachable", problem: "The platform does not answer.", hint: "Wait." })

export const KEY = { id: "0123456789abcdef", endpoints: "all" } as const

/** An agent's calls over a network. */
export const linkOver = (
  agents: AgentsService,
  name: string,
  net: Network,
  key: { readonly id: string; readonly endpoints: "all" | ReadonlyArray<string> } = KEY
): PlatformLink => {
  const refused = Effect.mapError(({ hint, problem }: { readonly hint: string; readonly problem: string }) =>
    new LinkError({ kind: "conflict", problem, hint })
  )
  const whileConnected = Effect.suspend(() => net.isCut ? Effect.fail(unreachable) : Effect.void)
  return {
    report: Effect.fnUntraced(function*(report) {
      yield* whileConnected
      if (net.uplink !== undefined) {
        const millis = 1_000 * Buffer.byteLength(JSON.stringify(report)) / net.uplink
        yield* Effect.mapError(Effect.timeout(Effect.sleep(millis), CALL_LIMIT), () => unreachable)
      }
      net.reports.push(report)
      const { orders } = yield* refused(agents.report(name, key, report))
      if (net.repeat > 0) {
        net.repeat -= 1
        yield* Effect.ignore(agents.report(name, key, report))
      }
      if (net.loseAnswers > 0) {
        net.loseAnswers -= 1
        return yield* unreachable
      }
      yield* whileConnected
      net.starts += orders.workers.filter(({ start }) => start !== undefined).length
      return orders
    }),
    changes: (epoch, revision) =>
      Effect.andThen(whileConnected, refused(agents.changes(name, key.id, epoch, revision))).pipe(
        Effect.tap(() => whileConnected)
      ),
    code: (hash) => Effect.andThen(whileConnected, refused(agents.code(name, key.id, hash)))
  }
}

/** An agent on a machine whose workers are fibers. */
export const layerAgent = (
  link: PlatformLink,
  options: Partial<Omit<Agent.Options, "link">> = {}
): Layer.Layer<MemoryWorkerPool.Faults> =>
  Agent.layer({
    link,
    address: "http://127.0.0.1:1",
    instance: "one",
    version: "test",
    capacity: { workers: 10, cpus: 4, memoryBytes: 8 * 1024 ** 3, gpus: 0 },
    volumes: [],
    drained: { initial: false, store: () => Effect.void },
    ...options
  }).pipe(
    Layer.provideMerge(Layer.fresh(layerScripted)),
    Layer.provide(AgentOutput.layerLog),
    Layer.provide(Layer.fresh(AgentOutput.layer))
  )

/** Waits until the platform sees an agent in this state. */
export const awaitState = (name: string, state: "connected" | "draining" | "lost") =>
  Effect.flatMap(Agents, ({ list }) =>
    Effect.repeat(Effect.andThen(Effect.sleep(5), list), {
      until: ({ agents }) => agents.some((agent) => agent.name === name && agent.state === state)
    }))

let count = 0

/** Runs everything that needs no time, and then lets `millis` pass. */
export const after = (millis: number) => Effect.andThen(TestClock.adjust(millis), Effect.yieldNow)

/** Starts a worker. */
export const begin = Effect.fnUntraced(function*(
  { code, command = "scripted", ...options }: {
    readonly print?: ReadonlyArray<string>
    readonly worker?: string
    readonly command?: string
    readonly code?: string
    readonly pull?: StartRequest["pull"]
    readonly labels?: Readonly<Record<string, string>>
    readonly gpus?: number
  } = {}
) {
  const pool = yield* WorkerPool
  const behaviour = { print: options.print ?? [], printEnv: [], then: { _tag: "Wait" } }
  const endpoint = yield* endpointOf({
    source: options.gpus === undefined
      ? { type: "command", command: [command] }
      : { type: "container", image: "worker:1", gpus: options.gpus },
    ...(options.labels === undefined ? {} : { placement: { labels: options.labels } }),
    env: { [BEHAVIOUR]: JSON.stringify(behaviour) }
  })
  const worker = WorkerId.make(options.worker ?? `w-${++count}`)
  return yield* pool.start({
    endpoint: resolvedOf(endpoint),
    worker,
    variables: { PLATFORM_AI_API_KEY: "stint_worker_secret" },
    pull: options.pull,
    ...(code === undefined ? {} : { code })
  })
})

/** An agent that joins, and stays until the test ends. */
export const join = Effect.fnUntraced(function*(name: string, net: Network, options: Parameters<typeof layerAgent>[1] = {}) {
  const agents = yield* Agents
  const scope = yield* Scope.make()
  const built = yield* Layer.buildWithScope(layerAgent(linkOver(agents, name, net), options), scope)
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  yield* after(20)
  return { faults: Context.get(built, MemoryWorkerPool.Faults), scope }
})

/** As an operator sees the agent. */
export const viewOf = (name: string) =>
  Effect.flatMap(Agents, ({ list }) => Effect.map(list, ({ agents }) => agents.find((agent) => agent.name === name)))

/** A report written by the test instead of an agent. */
export const handReport = (more: Partial<AgentReport> = {}): AgentReport => ({
  protocol: 1,
  version: "test",
  instance: "by hand",
  run: "first",
  number: 1,
  capacity: { workers: 2, cpus: 1, memoryBytes: 1, gpus: 0 },
  supports: ["command"],
  volumes: [],
  labels: {},
  isDrained: false,
  isLeaving: false,
  workers: [],
  ...more
})

/** Runs a test on its own platform, whose workers print to `log`. */
export const testWith =
  (log: Layer.Layer<never>) => (title: string, body: Effect.Effect<void, unknown, WorkerPool | Scope.Scope>) =>
    it.effect(title, () =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const exit = yield* Effect.exit(Scope.provide(body, scope))
        const closing = yield* Effect.forkChild(Scope.close(scope, exit))
        yield* after(60_000)
        yield* Fiber.join(closing)
        return yield* exit
      }).pipe(Effect.provide(Layer.fresh(layerPlatform()).pipe(Layer.provide(log)))))

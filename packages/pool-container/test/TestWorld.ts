/** Parts of the tests with a stub engine. */
import type { EndpointSource } from "@stint/contract/Endpoint"
import { WorkerId } from "@stint/contract/Ids"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import { endpointOf, resolvedOf } from "@stint/pool/testing"
import { type WorkerLine, WorkerLog } from "@stint/pool/WorkerLog"
import { type StartRequest, WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import * as ContainerPool from "../src/ContainerPool.ts"
import * as ContainerRecords from "../src/ContainerRecords.ts"
import { StubContainer, StubEngine } from "./StubEngine.ts"

export const IMAGE = "registry.example.com/llm:1"
export const DIGEST = `registry.example.com/llm@sha256:${"0".repeat(64)}`

type Container = Extract<EndpointSource, { readonly type: "container" }>

/** Waits for a state that the pool or the stub reaches by itself. */
export const until = <A>(what: string, look: () => A | undefined) =>
  Effect.promise(async () => {
    const deadline = Date.now() + 20_000
    for (let found = look();; found = look()) {
      if (found !== undefined) return found
      if (Date.now() > deadline) throw new Error(`timed out waiting for ${what}`)
      await new Promise((next) => setTimeout(next, 5))
    }
  })

/** The variables of a worker. */
export const variablesOf = (worker: WorkerId) =>
  workerEnvironment({
    baseUrl: "http://127.0.0.1:4600",
    endpoint: "tested",
    worker,
    key: "stint_worker_0123456789",
    pingIntervalMs: 10_000
  })

/** Pools with a stub engine, and everything that they log and write. */
export const world = Effect.gen(function*() {
  const engine = new StubEngine()
  yield* Effect.acquireRelease(Effect.promise(() => engine.appear()), () => Effect.promise(() => engine[Symbol.asyncDispose]()))
  engine.addImage(IMAGE, { digest: DIGEST })
  const lines: Array<WorkerLine> = []
  const logged: Array<string> = []
  const outputsTo = (sink: Array<WorkerLine>) =>
    Layer.merge(
      Layer.succeed(WorkerLog, { write: (line) => Effect.sync(() => void sink.push(line)) }),
      Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])
    )
  const outputs = outputsTo(lines)
  const dataDir = join(engine.folder, "data")

  /** Builds a pool on the same data folder, as a platform does when it starts. */
  const pool = Effect.fnUntraced(function*(
    options: Partial<ContainerPool.Options> = {},
    sink: Array<WorkerLine> = lines
  ) {
    const scope = yield* Scope.Scope
    const layer = ContainerPool.layer({
      dataDir,
      socket: engine.socket,
      credentials: join(engine.folder, "config.json"),
      ...options
    })
    const context = yield* Layer.buildWithScope(Layer.provideMerge(layer, outputsTo(sink)), scope)
    return yield* Effect.provideContext(WorkerPool, context)
  })

  let count = 0
  const start = Effect.fnUntraced(function*(
    pool: WorkerPool["Service"],
    more: Partial<Container> = {},
    rest: Pick<StartRequest, "gpuIds" | "model" | "pull"> = {}
  ) {
    const worker = WorkerId.make(`w-${++count}`)
    const endpoint = yield* endpointOf({
      source: { type: "container", image: IMAGE, network: "host", ...more },
      env: { GREETING: "hello" }
    })
    return yield* Effect.provide(
      pool.start({ endpoint: resolvedOf(endpoint), worker, variables: variablesOf(worker), ...rest }),
      outputs
    )
  })

  /** A container of a platform that was killed, with its record. */
  const leave = (status: StubContainer["status"]): StubContainer => {
    const worker = `w-${++count}`
    const container = new StubContainer(`stint-${worker}`, { Labels: { "stint.worker": worker } })
    container.status = status
    engine.containers.set(container.name, container)
    ContainerRecords.make(dataDir).write({ worker, endpoint: "tested", socket: engine.socket, port: null })
    return container
  }

  return {
    engine,
    leave,
    dataDir,
    logged,
    lines,
    texts: () => lines.map(({ stream, text }) => `${stream} ${text}`),
    records: () => readdirSync(join(dataDir, "containers")),
    outputs,
    pool,
    start,
    startError: (pool: WorkerPool["Service"], more: Partial<Container> = {}) =>
      Effect.map(Effect.flip(Effect.scoped(start(pool, more))), ({ message }) => message)
  }
})

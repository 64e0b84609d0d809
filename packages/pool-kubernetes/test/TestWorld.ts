/** Shared by the tests with a stub cluster. */
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
import { join } from "node:path"
import * as KubernetesPool from "../src/KubernetesPool.ts"
import type { KubernetesSettings, PodSettings } from "../src/KubernetesSettings.ts"
import { StubCluster } from "./StubCluster.ts"

/** A variable that Kubernetes would change. */
export const GREETING = "hello $(USER) $$(PYTHONUNBUFFERED) pa$$word $2a$10"

export const IMAGE = "registry.example.com/llm:1"

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

/** A worker's variables. */
export const variablesOf = (worker: WorkerId) =>
  workerEnvironment({
    baseUrl: "http://127.0.0.1:4600",
    endpoint: "tested",
    worker,
    key: "stint_worker_0123456789",
    pingIntervalMs: 10_000
  })

/** Pools with a stub cluster, and everything that they log and write. */
export const world = Effect.gen(function*() {
  const cluster = new StubCluster()
  yield* Effect.acquireRelease(Effect.promise(() => cluster.appear()), () => Effect.promise(() => cluster[Symbol.asyncDispose]()))
  const lines: Array<WorkerLine> = []
  const logged: Array<string> = []
  const outputsTo = (sink: Array<WorkerLine>) =>
    Layer.merge(
      Layer.succeed(WorkerLog, { write: (line) => Effect.sync(() => void sink.push(line)) }),
      Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])
    )
  const outputs = outputsTo(lines)
  const settings = (pods: PodSettings = {}): KubernetesSettings => ({
    namespace: "jobs",
    name: "tested",
    platformUrl: "http://stint.jobs.svc:4600",
    kubeconfig: cluster.kubeconfig,
    pods
  })
  /** Builds a pool, as a platform does when it starts. */
  const pool = Effect.fnUntraced(function*(pods?: PodSettings, sink: Array<WorkerLine> = lines) {
    const scope = yield* Scope.Scope
    const layer = KubernetesPool.layer({ dataDir: join(cluster.folder, "data"), settings: settings(pods) })
    const context = yield* Layer.buildWithScope(Layer.provideMerge(layer, outputsTo(sink)), scope)
    return yield* Effect.provideContext(WorkerPool, context)
  })

  let count = 0
  const start = Effect.fnUntraced(function*(
    pool: WorkerPool["Service"],
    more: Partial<Container> = {},
    { labels, ...rest }: Pick<StartRequest, "mask" | "model"> & { readonly labels?: Readonly<Record<string, string>> } = {}
  ) {
    const worker = WorkerId.make(`w-${++count}`)
    const endpoint = yield* endpointOf({
      source: { type: "container", image: IMAGE, ...more },
      ...(labels === undefined ? {} : { placement: { labels } }),
      env: { GREETING }
    })
    return yield* Effect.provide(
      pool.start({ endpoint: resolvedOf(endpoint), worker, variables: variablesOf(worker), ...rest }),
      outputs
    )
  })

  return {
    cluster,
    lines,
    logged,
    outputs,
    settings,
    pool,
    start,
    texts: () => lines.map(({ text }) => text),
    startError: (pool: WorkerPool["Service"], more: Partial<Container> = {}, rest: Pick<StartRequest, "mask" | "model"> = {}) =>
      Effect.map(Effect.flip(Effect.scoped(start(pool, more, rest))), ({ message, reason }) => `${reason._tag}: ${message}`)
  }
})

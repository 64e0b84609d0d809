/**
 * The pools of the platform: processes, and containers or pods for endpoints with an image.
 *
 * A platform without containers neither loads the container pool nor looks for an engine. The pool is built at startup only in two cases: an
 * earlier run left containers, which must be adopted before the first worker starts; or `STINT_ENGINE` names an engine, so that a mistake in it is
 * logged at once.
 *
 * The processes and containers share the machine's GPUs, CPUs and memory (see `MachinePool`).
 *
 * If pods are configured, their pool runs the endpoints with an image. It is built at startup, because only the cluster knows which pods an earlier
 * run left.
 */
import type { KubernetesSettings } from "@stint/pool-kubernetes/KubernetesSettings"
import type { CodeArtifacts } from "@stint/pool/CodeArtifacts"
import type { CodeTransfer } from "@stint/pool/CodeTransfer"
import * as MachinePool from "@stint/pool/MachinePool"
import type { MachineCapacity } from "@stint/pool/MachineReservations"
import type { NamedVolumes } from "@stint/pool/NamedVolumes"
import type { PoolError } from "@stint/pool/PoolError"
import type { WorkerPool } from "@stint/pool/WorkerPool"
import * as WorkerPools from "@stint/pool/WorkerPools"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import type { EngineSettings } from "../config/EngineConfig.ts"

/**
 * Whether an earlier run left records of containers. Does the same as `ContainerRecords.folderIn` of the container pool, without loading that pool.
 */
const hasContainers = (dataDir: string): boolean => {
  const folder = join(dataDir, "containers")
  return existsSync(folder) && readdirSync(folder).length > 0
}

const layerContainers = (
  dataDir: string,
  engine: EngineSettings | undefined,
  namedVolumes: NamedVolumes
): Layer.Layer<WorkerPool> => {
  const load = Effect.map(
    Effect.promise(() => import("@stint/pool-container")),
    ({ ContainerPool }) => ContainerPool.layer({ dataDir, ...engine, namedVolumes })
  )
  return engine?.socket !== undefined || hasContainers(dataDir) ? Layer.unwrap(load) : WorkerPools.lazy(["container"], load)
}

/** The settings of the pools other than the process pool. */
export interface Options {
  readonly dataDir: string
  readonly engine?: EngineSettings
  readonly kubernetes?: KubernetesSettings
  /** Default: none. */
  readonly volumes?: NamedVolumes
  /** Whether endpoints with an image are supported. Default: true. */
  readonly containers?: boolean
  /** What the machine has for workers. Pods run elsewhere. Default: no limit. */
  readonly capacity?: MachineCapacity | undefined
}

const layerPods = (dataDir: string, settings: KubernetesSettings): Layer.Layer<WorkerPool, PoolError> =>
  Layer.unwrap(Effect.map(
    Effect.promise(() => import("@stint/pool-kubernetes/KubernetesPool")),
    (KubernetesPool) => KubernetesPool.layer({ dataDir, settings })
  ))

/** `processes` with the pool for endpoints that have an image. */
export const layer = (
  processes: Layer.Layer<WorkerPool | CodeArtifacts | CodeTransfer, PoolError>,
  { capacity, containers = true, dataDir, engine, kubernetes, volumes = {} }: Options
): Layer.Layer<WorkerPool | CodeArtifacts | CodeTransfer, PoolError> =>
  Layer.effectContext(Effect.gen(function*() {
    const built = yield* Layer.build(processes)
    const images = kubernetes === undefined
      ? layerContainers(dataDir, engine, volumes)
      : layerPods(dataDir, kubernetes)
    const pools = containers ? WorkerPools.layer([Layer.succeedContext(built), images]) : Layer.succeedContext(built)
    const limited = capacity === undefined ? pools : MachinePool.layer({
      capacity,
      sources: kubernetes === undefined ? ["handler", "command", "container"] : ["handler", "command"]
    }).pipe(Layer.provide(pools))
    return Context.merge(built, yield* Layer.build(limited))
  }))

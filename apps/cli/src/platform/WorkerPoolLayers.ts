/**
 * The pools of the platform: processes, and containers if an endpoint needs them.
 *
 * A platform without endpoints in containers neither loads the container pool nor looks for an engine. The pool is built at the start only if
 * an earlier run left containers, which must be taken over before the first worker starts, or if `STINT_ENGINE` names an engine, so that a
 * mistake in it is logged at once.
 */
import type { CodeArtifacts } from "@stint/pool/CodeArtifacts"
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

/** Whether an earlier run left records of containers: `ContainerRecords.folderIn` of the container pool, which is not loaded for this. */
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

/** `processes` with the container pool. */
export const layer = (
  processes: Layer.Layer<WorkerPool | CodeArtifacts, PoolError>,
  dataDir: string,
  engine: EngineSettings | undefined,
  namedVolumes: NamedVolumes
): Layer.Layer<WorkerPool | CodeArtifacts, PoolError> =>
  Layer.effectContext(Effect.gen(function*() {
    const built = yield* Layer.build(processes)
    const pools = yield* Layer.build(
      WorkerPools.layer([Layer.succeedContext(built), layerContainers(dataDir, engine, namedVolumes)])
    )
    return Context.merge(built, pools)
  }))

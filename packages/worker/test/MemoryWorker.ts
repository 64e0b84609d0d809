/**
 * A worker over the in-memory transport, for tests of its background loops in virtual time.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { Runnable } from "../src/handlers/Runnable.ts"
import type * as JobMiddleware from "../src/plugins/JobMiddleware.ts"
import * as Worker from "../src/runtime/Worker.ts"
import * as WorkerConfig from "../src/runtime/WorkerConfig.ts"
import * as JobSourceMemory from "../src/testing/JobSourceMemory.ts"
import * as LogMemory from "../src/testing/LogMemory.ts"

/** A job as the transport returns it. */
export const job = (id: string, input: string | number | null = null) => ({ id, input })

/**
 * The services of a worker without a platform, and its log. The default grace period is zero: the shutdown does not wait for jobs.
 */
export const services = (env: WorkerConfig.Environment = { PLATFORM_SHUTDOWN_GRACE: "0" }) => {
  const log = LogMemory.make()
  const layer = Layer.mergeAll(
    JobSourceMemory.layer,
    Worker.layerPluginServices,
    Layer.effect(WorkerConfig.WorkerConfig, Effect.orDie(WorkerConfig.read({ PLATFORM_POD_ID: "w1", ...env }, []))),
    log.layer
  )
  return { log: log.lines, layer }
}

/** Runs the worker until the test's scope closes. */
export const start = (
  handler: Runnable,
  options: Worker.Options<ReadonlyArray<JobMiddleware.JobMiddleware<never, never, Scope.Scope>>> = {}
) => Layer.build(Worker.layer(handler, options))

/**
 * A worker in this process that uses a {@link PlatformStub} over HTTP.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { Runnable } from "../src/handlers/Runnable.ts"
import * as Worker from "../src/runtime/Worker.ts"
import * as WorkerConfig from "../src/runtime/WorkerConfig.ts"
import * as LogMemory from "../src/testing/LogMemory.ts"
import type * as PlatformStub from "../src/testing/PlatformStub.ts"
import * as JobSourceHttp from "../src/transport/JobSourceHttp.ts"

/** Starts a worker in this process that uses the stub over HTTP. Its shutdown does not wait for jobs. */
export const start = Effect.fnUntraced(function*(
  stub: PlatformStub.PlatformStub,
  handler: Runnable,
  options: Worker.Options = {},
  env: WorkerConfig.Environment = stub.environment()
) {
  const log = LogMemory.make()
  const services = Layer.unwrap(
    Effect.map(
      WorkerConfig.WorkerConfig,
      ({ platform }) => JobSourceHttp.layerOf(platform ?? fail("the variables make no platform"))
    )
  ).pipe(
    Layer.provideMerge(Layer.merge(Worker.layerPluginServices, log.layer)),
    Layer.provideMerge(
      Layer.effect(WorkerConfig.WorkerConfig, Effect.orDie(WorkerConfig.read({ PLATFORM_SHUTDOWN_GRACE: "0", ...env }, [])))
    )
  )
  const scope = yield* Scope.fork(yield* Effect.scope)
  yield* Layer.buildWithScope(Layer.provide(Worker.layer(handler, options), services), scope)
  return { log: log.lines, logged: log.until, close: Scope.close(scope, Exit.void) }
})

const fail = (message: string): never => {
  throw new Error(message)
}

/** Waits for a state of the stub. */
export const until = (stub: PlatformStub.PlatformStub, check: () => boolean) => Effect.promise(() => stub.until(check))
/** Waits for a job's accepted result. */
export const resultOf = (stub: PlatformStub.PlatformStub, id: string) => Effect.promise(() => stub.resultOf(id))

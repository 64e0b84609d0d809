/**
 * A worker in the test's process, connected over HTTP to a platform stub, with the given OpenTelemetry variables.
 */
import * as Handler from "@stint/worker/Handler"
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import * as JobSourceHttp from "@stint/worker/JobSourceHttp"
import type { Runnable } from "@stint/worker/Runnable"
import { LogMemory } from "@stint/worker/testing"
import type { PlatformStub } from "@stint/worker/testing"
import * as Worker from "@stint/worker/Worker"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { Telemetry } from "../src/index.ts"

/** The ids of the caller's trace and span. */
export const TRACE = "0af7651916cd43dd8448eb211c80319c"
export const CALLER = "b7ad6b7169203331"
export const traceparent = `00-${TRACE}-${CALLER}-01`
export const unrecorded = `00-${TRACE}-${CALLER}-00`

/** A handler whose job produces every kind of span. */
export const Square = Handler.make("square", {
  input: Schema.Struct({ n: Schema.Number }),
  output: Schema.Number,
  run: ({ n }) => n < 0 ? Effect.die(new RangeError(`${n} is negative`)) : Effect.succeed(n * n)
})

const fail = (message: string): never => {
  throw new Error(message)
}

/** Starts the worker. `close` stops the worker, then its telemetry. */
export const start = Effect.fnUntraced(function*(
  stub: PlatformStub.PlatformStub,
  handler: Runnable,
  variables: Record<string, string>,
  middleware: JobMiddleware.JobMiddleware = JobMiddleware.none
) {
  const log = LogMemory.make()
  const services = Layer.unwrap(
    Effect.map(
      WorkerConfig.WorkerConfig,
      ({ platform }) => JobSourceHttp.layerOf(platform ?? fail("the variables make no platform"))
    )
  ).pipe(
    Layer.provideMerge(Layer.merge(Worker.layerPluginServices, log.layer)),
    Layer.provideMerge(Layer.effect(
      WorkerConfig.WorkerConfig,
      Effect.orDie(WorkerConfig.read({ PLATFORM_SHUTDOWN_GRACE: "0", ...stub.environment() }, []))
    ))
  )
  const traced = Layer.provide(Worker.layer(handler, { middleware: [middleware] }), Telemetry.layer)
  const scope = yield* Scope.fork(yield* Effect.scope)
  yield* Layer.buildWithScope(Layer.provide(traced, services), scope).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: variables }))
  )
  return { log, close: Scope.close(scope, Exit.void) }
})

/** A result that the stub received. */
export const resultOf = (stub: PlatformStub.PlatformStub, id: string) => Effect.promise(() => stub.resultOf(id))

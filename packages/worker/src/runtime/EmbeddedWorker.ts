/**
 * A worker inside a program that has its own runtime: the program keeps control of its layers, signals, log and exit.
 *
 * ```
 *   Worker.launch                                   EmbeddedWorker.layer
 *     installs loggers, signals, uncaught errors      installs nothing
 *     a signal closes the worker's scope              the program closes the layer's scope
 *     an unfit worker ends the process                an unfit worker fails the layer
 *     a result may request a fresh process            the request is logged, and the worker continues
 *     local test mode without a platform              the layer fails without a platform
 * ```
 */
import * as Cause from "effect/Cause"
import type { ConfigError } from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as FitnessChecks from "../plugins/FitnessChecks.ts"
import type { JobSource } from "../transport/JobSource.ts"
import * as JobSourceHttp from "../transport/JobSourceHttp.ts"
import { ProcessExit } from "./ProcessExit.ts"
import * as Shutdown from "./Shutdown.ts"
import type { Services } from "./Worker.ts"
import * as WorkerConfig from "./WorkerConfig.ts"

/** The embedded worker cannot take jobs. The message gives the reason and the remedy. */
export class EmbeddedWorkerError extends Schema.TaggedError<EmbeddedWorkerError>()("EmbeddedWorkerError", {
  message: Schema.String
}) {}

/** Why an embedded worker did not start. */
export type StartError = EmbeddedWorkerError | WorkerConfig.WorkerConfigError | ConfigError

const source: Layer.Layer<JobSource, EmbeddedWorkerError, WorkerConfig.WorkerConfig> = Layer.unwrap(
  Effect.flatMap(WorkerConfig.WorkerConfig, ({ platform }) =>
    platform === undefined
      ? new EmbeddedWorkerError({
        message:
          "The embedded worker has no platform to take jobs from, because RUNPOD_WEBHOOK_GET_JOB is not set. Set the variables " +
          "that `stint worker-env <endpoint>` prints, or leave the worker's layer out of the program."
      })
      : Effect.succeed(JobSourceHttp.layerOf(platform)))
)

/** An embedded worker never gives up, because the program decides when it ends. */
const config = Layer.effect(
  WorkerConfig.WorkerConfig,
  Effect.map(WorkerConfig.WorkerConfig, (settings) => ({ ...settings, unreachableLimit: undefined }))
).pipe(Layer.provide(WorkerConfig.layer([])))

/** A shutdown service whose requests do not end the worker, and the request that is made when the layer closes. */
const makeShutdown = () => {
  const own = Shutdown.make()
  return {
    program: Shutdown.Shutdown.of({
      ...own,
      request: ({ reason }) =>
        Effect.logWarning(`An embedded worker cannot replace its process: ${reason}. It continues to take jobs.`)
    }),
    end: own.request({ reason: "the program closes the worker", exitCode: 0 })
  }
}

/** Turns the process exit after a failed fitness check or setup into the layer's error. */
const failLayer = Layer.succeed(
  ProcessExit,
  () =>
    Effect.die(
      new EmbeddedWorkerError({
        message: "A fitness check or the setup of the embedded worker failed; the log says why. The worker takes no jobs."
      })
    )
)

const isUnfit = Schema.is(EmbeddedWorkerError)

/**
 * Runs a worker while the layer's scope is open, with the settings of the current `ConfigProvider`. Closing the scope finishes and delivers
 * the running jobs first, for at most `SHUTDOWN_GRACE`. The worker shares the program's layers, and the program may do other work at the
 * same time.
 *
 * The layer is built when the fitness checks have passed and the setup has ended. It fails with the reason when one of them failed, when no
 * platform is configured, or when a setting is invalid.
 *
 * @example
 * ```ts
 * const app = Layer.mergeAll(
 *   HttpServer.layer,
 *   EmbeddedWorker.layer(Worker.layer(Thumbnail))
 * ).pipe(Layer.provide(Images.layer))
 *
 * const runtime = ManagedRuntime.make(app)
 * ```
 */
export const layer = <A, E, R>(worker: Layer.Layer<A, E, R>): Layer.Layer<never, E | StartError, Exclude<R, Services>> =>
  Layer.unwrap(Effect.sync(() => {
    const { end, program } = makeShutdown()
    const services: Layer.Layer<Services, StartError> = Layer.mergeAll(
      FitnessChecks.layer,
      Layer.succeed(Shutdown.Shutdown, program),
      failLayer,
      source
    ).pipe(Layer.provideMerge(config))
    // Built after the worker, and therefore closed before it.
    return Layer.effectDiscard(Effect.addFinalizer(() => end)).pipe(Layer.provide(worker), Layer.provide(services))
  })).pipe(Layer.catchCause((cause) => {
    const unfit = cause.reasons.filter(Cause.isDieReason).map(({ defect }) => defect).find(isUnfit)
    return Layer.effectDiscard(unfit === undefined ? Effect.failCause(cause) : Effect.fail(unfit))
  }))

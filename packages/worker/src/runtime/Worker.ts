/**
 * A worker: its duties put together, and the program around them.
 *
 * ```
 *   Worker.layer(handler)                                  closed in this order:
 *     Fitness                   checks the machine               (before the first take)
 *     TakeLoop                  takes jobs                       1  no more takes
 *     Drain                     waits for the running ones       2  running jobs are finished and delivered, goodbye
 *     StopMonitor, Heartbeat    listens, beats                   3
 *     JobRunner, Delivery         runs, delivers                   4
 *   the handler's own layers                                     5
 *   Services: WorkerConfig, JobSource, Shutdown, FitnessChecks   6
 * ```
 *
 * `Worker.launch` provides the services as the environment demands: those of a platform, or those of local test mode.
 */
import * as Cause from "effect/Cause"
import type { ConfigError } from "effect/Config"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { messageOf } from "../handlers/Outcome.ts"
import type { Runnable } from "../handlers/Runnable.ts"
import * as LocalMode from "../local/LocalMode.ts"
import type { LocalTestError } from "../local/LocalTest.ts"
import * as FitnessChecks from "../plugins/FitnessChecks.ts"
import type * as JobMiddleware from "../plugins/JobMiddleware.ts"
import type { JobSource } from "../transport/JobSource.ts"
import * as JobSourceHttp from "../transport/JobSourceHttp.ts"
import * as ResultDelivery from "../transport/ResultDelivery.ts"
import * as Drain from "./Drain.ts"
import * as FitnessCheckRunner from "./FitnessCheckRunner.ts"
import * as Heartbeat from "./Heartbeat.ts"
import * as JobConsole from "./JobConsole.ts"
import * as JobRunner from "./JobRunner.ts"
import * as Logger from "./Logger.ts"
import * as LogLine from "./LogLine.ts"
import * as Ready from "./Ready.ts"
import * as Shutdown from "./Shutdown.ts"
import * as StdioFlush from "./StdioFlush.ts"
import * as StopMonitor from "./StopMonitor.ts"
import * as TakeLoop from "./TakeLoop.ts"
import * as WorkerConfig from "./WorkerConfig.ts"

/** What every worker and every plugin can use, and what {@link launch} provides. */
export type Services =
  | FitnessChecks.FitnessChecks
  | JobSource
  | Shutdown.Shutdown
  | WorkerConfig.WorkerConfig

/** How the worker takes and runs jobs. */
export interface Options<out Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []>
  extends JobRunner.Options<Middleware>, TakeLoop.Options
{}

/** Why a worker did not start. */
export type StartError = WorkerConfig.WorkerConfigError | LocalMode.LocalModeError | LocalTestError | ConfigError

/**
 * The worker of this handler: it takes jobs and runs them while the layer's scope is open, and finishes what it holds when the
 * scope closes.
 *
 * What the handler needs shows in the layer's requirements; a handler with a missing layer does not compile.
 */
export const layer = <R, const Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []>(
  handler: Runnable<R>,
  options: Options<Middleware> = {}
): Layer.Layer<
  never,
  never,
  Services | Exclude<JobRunner.JobServices<R, Middleware> | JobMiddleware.SetupServices<Middleware>, Scope.Scope>
> =>
  TakeLoop.layer(options).pipe(
    Layer.provide(Drain.layer),
    Layer.provide([StopMonitor.layer, Heartbeat.layer]),
    Layer.provide(JobRunner.layer(handler, options.middleware, options)),
    Layer.provide([ResultDelivery.layer, Ready.layer]),
    Layer.provide(FitnessCheckRunner.layer)
  )

/** How the program differs from its defaults. */
export interface LaunchOptions {
  /** Local test mode only: where the jobs come from, and how the HTTP server is loaded. */
  readonly local?: LocalMode.Options
}

/** The services that need no environment: an empty list of fitness checks, and the shutdown request. */
export const layerPluginServices: Layer.Layer<FitnessChecks.FitnessChecks | Shutdown.Shutdown> = Layer.merge(
  FitnessChecks.layer,
  Shutdown.layer
)

const services = (options: LaunchOptions): Layer.Layer<Services, StartError> =>
  Layer.unwrap(
    Effect.map(
      WorkerConfig.WorkerConfig,
      ({ platform }): Layer.Layer<JobSource, StartError, Shutdown.Shutdown | WorkerConfig.WorkerConfig> =>
        platform === undefined ? LocalMode.layer(options.local ?? {}) : JobSourceHttp.layerOf(platform)
    )
  ).pipe(
    Layer.provideMerge(Layer.mergeAll(layerPluginServices, Logger.layer, JobConsole.layer)),
    Layer.provideMerge(WorkerConfig.layer())
  )

/** What a shell says of a process that ended by SIGINT. */
const INTERRUPTED = 130

/**
 * The first signal asks the worker to stop. A second SIGINT ends the process at once, as an impatient human expects; a second
 * SIGTERM says nothing new, because what sends it may well say it twice, and has SIGKILL for more.
 */
const onSignals = Effect.gen(function*() {
  const shutdown = yield* Shutdown.Shutdown
  const context = yield* Effect.context()
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    let seen = false
    const listener = () => {
      if (seen && signal === "SIGINT") process.exit(INTERRUPTED)
      seen = true
      Effect.runForkWith(context)(shutdown.request({ reason: signal, exitCode: 0 }))
    }
    yield* Effect.acquireRelease(
      Effect.sync(() => process.on(signal, listener)),
      () => Effect.sync(() => process.off(signal, listener))
    )
  }
})

/** Runs the worker until it is asked to stop and has finished; the answer is the process's exit code. */
const program = <A, E>(worker: Layer.Layer<A, E, Services>): Effect.Effect<number, E, Services> =>
  Effect.scoped(Effect.gen(function*() {
    const { endpoint, identity, platform } = yield* WorkerConfig.WorkerConfig
    const shutdown = yield* Shutdown.Shutdown
    yield* onSignals
    const scope = yield* Scope.make()
    const running = Layer.buildWithScope(worker, scope).pipe(
      Effect.tap(() =>
        platform === undefined
          ? Effect.void
          : Effect.logInfo(`Worker ${identity.workerId} takes jobs${endpoint === undefined ? "" : ` of endpoint ${endpoint}`}.`)
      ),
      Effect.andThen(Effect.never)
    )
    const { reason, exitCode } = yield* Effect.raceFirst(running, shutdown.requested).pipe(
      Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
    )
    if (platform !== undefined) yield* Effect.logInfo(`Stopping: ${reason}.`)
    yield* Scope.close(scope, Exit.void)
    return exitCode
  }))

/**
 * Node ends a process whose only work is a promise that nobody will ever settle; a worker that waits for its jobs must not end.
 */
const KEEP_ALIVE = 2 ** 31 - 1

/** A worker outlives the platform that reads its output: with nobody left to read, it finishes its job all the same. */
const ignoreBrokenPipes = (): void => {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error
    })
  }
}

/** Ends the process once its last lines have left it. */
const exit = (code: number): void => {
  Effect.runFork(StdioFlush.flush(StdioFlush.EXIT_FLUSH_TIMEOUT)).addObserver(() => process.exit(code))
}

/** {@link launch} with options. */
export const launchWith = (options: LaunchOptions) => <A, E>(worker: Layer.Layer<A, E, Services>): void => {
  ignoreBrokenPipes()
  const keepAlive = setInterval(() => {}, KEEP_ALIVE)
  const fiber = Effect.runFork(Effect.provide(program(worker), services(options)))
  fiber.addObserver((ended) => {
    clearInterval(keepAlive)
    if (Exit.isSuccess(ended)) return exit(ended.value)
    const expected = ended.cause.reasons.every(Cause.isFailReason)
    LogLine.write(
      WorkerConfig.logStyle(process.env, process.argv.slice(2)),
      "ERROR",
      expected ? messageOf(Cause.squash(ended.cause)) : Cause.pretty(ended.cause)
    )
    exit(1)
  })
}

/**
 * Runs the worker as this process's program, and ends the process with it
 * (docs/spec/worker-lifecycle.md#exit-codes, docs/spec/local-test-mode.md#detection).
 *
 * With the platform's variables set it is a worker: exit code 0 after SIGTERM, SIGINT or a result that asked for a fresh worker,
 * with everything it held delivered. Without them it is local test mode: exit code 0, or 1 when the job failed. A worker that
 * cannot start says why in one line and exits with 1.
 *
 * @example
 * ```ts
 * Worker.layer(Thumbnail).pipe(
 *   Layer.provide([Downloads.layer, Images.layer]),
 *   Worker.launch
 * )
 * ```
 */
export const launch: <A, E>(worker: Layer.Layer<A, E, Services>) => void = launchWith({})

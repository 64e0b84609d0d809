/**
 * A worker: the composition of its layers, and the program around it.
 *
 * ```
 *   Worker.layer(handler)                                  closed in this order:
 *     FitnessCheckRunner        checks the machine               (before the first take)
 *     Setup                     loads what the handler needs     (before the first take)
 *     TakeLoop                  takes jobs                       1  no more takes
 *     Drain                     waits for running jobs           2  running jobs are finished and delivered, exit ping
 *     StopMonitor, Heartbeat    polls stops, sends heartbeats    3
 *     SchemaReport              reports the handler's schema
 *     UncaughtErrors            fails the jobs that caused them
 *     JobRunner, ResultDelivery runs, delivers                   4
 *   the handler's own layers                                     5
 *   Services: WorkerConfig, JobSource, Shutdown, FitnessChecks   6
 * ```
 *
 * `Worker.launch` provides the services for the environment: a platform or local test mode.
 */
import * as Cause from "effect/Cause"
import type { ConfigError } from "effect/Config"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { Runnable } from "../handlers/Runnable.ts"
import { sentence, traceback } from "../handlers/ThrownValue.ts"
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
import * as MainModule from "./MainModule.ts"
import * as ModelVariables from "./ModelVariables.ts"
import * as Ready from "./Ready.ts"
import * as SchemaReport from "./SchemaReport.ts"
import * as Setup from "./Setup.ts"
import * as Shutdown from "./Shutdown.ts"
import * as StdioFlush from "./StdioFlush.ts"
import * as StopMonitor from "./StopMonitor.ts"
import * as TakeLoop from "./TakeLoop.ts"
import * as UncaughtErrors from "./UncaughtErrors.ts"
import * as WorkerConfig from "./WorkerConfig.ts"

/** The services that {@link launch} provides to every worker and plugin. */
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

/** A worker's layers, in reverse build order. */
const compose = <R, Middleware extends ReadonlyArray<JobMiddleware.Any>, Loaded, Needs>(
  handler: Runnable<R>,
  options: Options<Middleware>,
  setup: Layer.Layer<Loaded, never, Needs>
) =>
  TakeLoop.layer(
    handler.concurrency === undefined || options.concurrency !== undefined || options.concurrencyModifier !== undefined
      ? options
      : { ...options, concurrency: handler.concurrency }
  ).pipe(
    Layer.provide(Drain.layer),
    Layer.provide([StopMonitor.layer, Heartbeat.layer(handler), UncaughtErrors.layer, SchemaReport.layer(handler)]),
    Layer.provide(JobRunner.layer(handler, options.middleware, options)),
    Layer.provide([ResultDelivery.layer, Ready.layer]),
    Layer.provide(ModelVariables.layer),
    Layer.provide(setup),
    Layer.provide(FitnessCheckRunner.layer)
  )

/**
 * A worker for this handler. It takes and runs jobs while the layer's scope is open, and finishes the held jobs when the scope closes.
 *
 * The layer requires the services that the handler and the middleware need, so a worker with a missing layer or middleware does not compile.
 */
export const layer = <R, const Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []>(
  handler: Runnable<R>,
  options: Options<Middleware> = {}
): Layer.Layer<
  never,
  never,
  Services | Exclude<JobRunner.JobServices<R, Middleware> | JobMiddleware.SetupServices<Middleware>, Scope.Scope>
> => compose(handler, options, Layer.empty)

/**
 * A worker for this handler, with a setup that runs once, after the fitness checks and before the first job. The handler may need the
 * services of the setup's layer.
 *
 * A layer that is provided to the worker is also built before the first job. Only a setup has a time limit, reports its failure to the waiting jobs,
 * and shows its duration as a separate part of a cold start.
 *
 * @example
 * ```ts
 * Worker.layerWithSetup(Transcribe, { layer: Whisper.layer, timeout: "20 minutes" }).pipe(Worker.launch)
 * ```
 */
export const layerWithSetup = <R, Loaded, Needs, const Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []>(
  handler: Runnable<R>,
  setup: Setup.Setup<Loaded, Needs>,
  options: Options<Middleware> = {}
) => compose(handler, options, Setup.layer(setup))

/** Options for the program. */
export interface LaunchOptions {
  /** For local test mode only: the source of the jobs, and how the HTTP server is loaded. */
  readonly local?: LocalMode.Options
  /**
   * `import.meta`, or in CommonJS `module`: the worker starts only if this module is the program of the process, so that tests can import it.
   * Default: the worker always starts.
   */
  readonly main?: MainModule.MainModule
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

/** The exit code that shells use for SIGINT. */
const INTERRUPTED = 130

/**
 * The first signal requests the shutdown. A second SIGINT ends the process at once, as a user at a terminal expects. Further SIGTERMs are
 * ignored, because supervisors may send several, and can use SIGKILL to force an exit.
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

/** Runs the worker until it has shut down completely. Returns the process's exit code. */
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
 * Interval of the timer that keeps the process alive. Without the timer, Node would exit when only pending promises are left, for example
 * while a worker waits for jobs. Milliseconds.
 */
const KEEP_ALIVE = 2 ** 31 - 1

/** Ignores EPIPE, so that a worker finishes its job when the process that reads its output has died. */
const ignoreBrokenPipes = (): void => {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error
    })
  }
}

/** Exits after the last lines are flushed. */
const exit = (code: number): void => {
  Effect.runFork(StdioFlush.flush(StdioFlush.EXIT_FLUSH_TIMEOUT)).addObserver(() => process.exit(code))
}

/** {@link launch} with options. */
export const launchWith = (options: LaunchOptions) => <A, E>(worker: Layer.Layer<A, E, Services>): void => {
  if (options.main !== undefined && !MainModule.isMain(options.main)) return
  ignoreBrokenPipes()
  const keepAlive = setInterval(() => {}, KEEP_ALIVE)
  const fiber = Effect.runFork(
    Effect.provideService(Effect.provide(program(worker), services(options)), UncaughtErrors.HandlesUncaughtErrors, true)
  )
  fiber.addObserver((ended) => {
    clearInterval(keepAlive)
    if (Exit.isSuccess(ended)) return exit(ended.value)
    const expected = ended.cause.reasons.every(Cause.isFailReason)
    const failure = Cause.squash(ended.cause)
    LogLine.write(
      // Written at every level, because the process would otherwise end without a reason.
      { ...WorkerConfig.logStyle(process.env, process.argv.slice(2)), level: "ERROR" },
      "ERROR",
      expected ? sentence(failure) : traceback(failure)
    )
    exit(1)
  })
}

/**
 * Runs the worker as this process's program, and exits when the worker has ended
 * (docs/spec/worker-lifecycle.md#exit-codes, docs/spec/local-test-mode.md#detection).
 *
 * If the platform's variables are set, the program runs as a worker. It exits with 0 after SIGTERM, SIGINT or a result that requests a
 * fresh worker, once the results of all held jobs have been delivered. Otherwise it runs in local test mode and exits with 0, or with 1
 * when the job failed. A worker that cannot start logs the reason in one line and exits with 1. An error that no code catches fails the job
 * that caused it, and the worker then finishes its other jobs and exits with 1.
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

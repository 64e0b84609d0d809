/**
 * `serverless.start` runs a handler as the program of this process
 * (docs/spec/handler.md#start-configuration, docs/spec/handler.md#facade, docs/spec/worker-lifecycle.md#start).
 */
import * as Debugger from "@stint/worker-debugger/Debugger"
import * as Fitness from "@stint/worker-fitness/Fitness"
import * as Telemetry from "@stint/worker-telemetry/Telemetry"
import { fromBatchFunction } from "@stint/worker/BatchFunction"
import { isMain, type MainModule } from "@stint/worker/MainModule"
import * as Setup from "@stint/worker/Setup"
import * as Worker from "@stint/worker/Worker"
import { isLocal } from "@stint/worker/WorkerConfig"
import * as Layer from "effect/Layer"
import * as FitnessRegistration from "./FitnessRegistration.ts"
import * as JobFiles from "./JobFiles.ts"
import * as log from "./log.ts"
import * as ProgressFacade from "./ProgressFacade.ts"
import { problemOf, runnableOf } from "./StartConfig.ts"
import type { StartConfig } from "./StartConfig.ts"
import * as VolumeCacheFacade from "./VolumeCacheFacade.ts"

export type { MainModule } from "@stint/worker/MainModule"
export { register_fitness_check } from "./FitnessRegistration.ts"
export type { FitnessCheck } from "./FitnessRegistration.ts"
export { progress_update } from "./ProgressFacade.ts"
export type { BatchHandler, Context, Handler, Job, SetupContext, StartConfig } from "./StartConfig.ts"
export { VolumeCache } from "./VolumeCacheFacade.ts"

/** Whether this process has started its worker. */
const started = { worker: false }

/** The middleware of every worker that the facade starts. */
const middleware = [JobFiles.middleware, ProgressFacade.middleware, Debugger.middleware] as const

/** The plugins of every worker that the facade starts. Programs that compose a worker themselves choose their own plugins. */
const plugins = Layer.mergeAll(
  VolumeCacheFacade.layer,
  // The automatic checks (docs/spec/fitness-checks.md#automatic-checks) run before the registered ones.
  FitnessRegistration.layer.pipe(Layer.provide(Fitness.layer))
)

/**
 * Starts the worker: takes jobs from the platform and runs the handler once per job, until the platform or a signal stops the process.
 * Call it last. `setup` and the code before this call run once per worker, so load models in `setup` and not in the handler.
 *
 * Without the platform's variables the process is in local test mode: it runs the handler once with `test_input.json`, or serves it over
 * HTTP with `--rp_serve_api`.
 *
 * The worker includes progress, the automatic and registered fitness checks, the debugger (with `--rp_debugger`) and telemetry (with
 * `OTEL_*` variables).
 *
 * The input of an unannotated handler (`async (job) => job.input.name`) has the type `any`. Annotate the parameter to type it:
 * `async (job: { input: { name: string } }) => ...`. The type is not checked at run time.
 *
 * With `import.meta` (in CommonJS: `module`) as the second argument, the worker starts only if the calling module is the program of the
 * process, so that a test can import its handler. Without it, the worker always starts.
 *
 * @throws TypeError when the config has an unknown key or a value of the wrong type, or the second argument is not an object
 * @throws Error when the process has called it before
 */
export const start = <Input = any>( // oxlint-disable-line typescript/no-explicit-any
  config: StartConfig<Input>,
  main?: MainModule
): void => {
  const problem = problemOf(config)
  if (problem !== undefined) throw new TypeError(problem)
  if (main !== undefined) {
    if (typeof main !== "object" || main === null) {
      throw new TypeError(`serverless.start needs import.meta or module as its second argument, not ${typeof main}.`)
    }
    if (!isMain(main)) return
  }
  if (started.worker) {
    throw new Error(
      "serverless.start was called twice. One process runs one worker: it would register twice under one id. Call start once, and " +
        "choose between several handlers inside the handler, for example by a key of the input."
    )
  }
  started.worker = true
  const local = isLocal(process.env, process.argv.slice(2))
  const { concurrency_modifier, jobs_fetcher, jobs_handler, setup, setup_timeout } = config
  const { refresh_worker = false, return_aggregate_stream = false } = config
  if (!local && (jobs_fetcher !== undefined || jobs_handler !== undefined)) {
    log.warn("jobs_fetcher and jobs_handler are for local test mode only and are ignored here.")
  }
  const options = { returnAggregateStream: return_aggregate_stream }
  const runnable = local && jobs_handler !== undefined
    ? runnableOf(jobs_handler, options)
    : config.batch === undefined
    ? runnableOf(config.handler, options)
    : fromBatchFunction(config.handler, config.batch)
  const running = {
    middleware,
    refreshWorker: refresh_worker,
    ...(concurrency_modifier === undefined ? {} : { concurrencyModifier: concurrency_modifier })
  }
  const worker = setup === undefined
    ? Worker.layer(runnable, running)
    : Worker.layerWithSetup(runnable, { layer: Setup.fromFunction(setup), timeout: setup_timeout }, running)
  Worker.launchWith({
    local: {
      // Loaded only with --rp_serve_api, because a worker on a platform does not need it.
      loadServer: () => import("@stint/worker-local"),
      ...(jobs_fetcher === undefined ? {} : { jobs: jobs_fetcher })
    }
  })(
    worker.pipe(
      Layer.provide(plugins),
      // Provided last, so that the spans of the other plugins belong to the job.
      Layer.provide(Telemetry.layer)
    )
  )
}

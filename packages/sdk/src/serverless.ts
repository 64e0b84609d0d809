/**
 * `serverless.start`: a handler becomes this process's program
 * (docs/spec/handler.md#start-configuration, docs/spec/handler.md#facade, docs/spec/worker-lifecycle.md#start).
 */
import * as Debugger from "@stint/worker-debugger/Debugger"
import * as Fitness from "@stint/worker-fitness/Fitness"
import * as Telemetry from "@stint/worker-telemetry/Telemetry"
import { fromFunction } from "@stint/worker/HandlerFunction"
import { isRunnable } from "@stint/worker/Runnable"
import * as Worker from "@stint/worker/Worker"
import { isLocal } from "@stint/worker/WorkerConfig"
import * as Layer from "effect/Layer"
import * as FitnessRegistration from "./FitnessRegistration.ts"
import * as log from "./log.ts"
import * as rp_progress from "./rp_progress.ts"
import { problemOf } from "./StartConfig.ts"
import type { StartConfig } from "./StartConfig.ts"
import * as VolumeCacheFacade from "./VolumeCacheFacade.ts"

export { register_fitness_check } from "./FitnessRegistration.ts"
export type { FitnessCheck } from "./FitnessRegistration.ts"
export { progress_update } from "./rp_progress.ts"
export type { Context, Handler, Job, StartConfig } from "./StartConfig.ts"
export { VolumeCache } from "./VolumeCacheFacade.ts"

/** The middleware of every worker of the facade. */
const middleware = [rp_progress.middleware, Debugger.middleware] as const

/** The layers of every worker of the facade. Each is a plugin of its own, for those who put their worker together themselves. */
const plugins = Layer.mergeAll(
  VolumeCacheFacade.layer,
  // The automatic checks (docs/spec/fitness-checks.md#automatic-checks) come before what the handler's author checks.
  FitnessRegistration.layer.pipe(Layer.provide(Fitness.layer))
)

/**
 * Takes over this process: it polls for jobs and runs the handler once per job, until it is told to stop. Code before it, and
 * outside the handler, runs once per worker; that is where models are loaded.
 *
 * Without the platform's variables this is local test mode: the handler runs once, on the `test_input.json` beside it, or is served over
 * HTTP with `--rp_serve_api`.
 *
 * With the worker come its plugins: progress, the automatic and registered fitness checks, the debugger with `--rp_debugger`, and
 * telemetry where `OTEL_*` variables say where to send it.
 *
 * What callers send is not known, so an unannotated handler (`async (job) => job.input.name`) may use its input freely; with
 * `job: { input: { name: string } }` it is checked against that.
 *
 * @throws TypeError when the config has an unknown key or a value of the wrong type
 */
export const start = <Input = any>(config: StartConfig<Input>): void => { // oxlint-disable-line typescript/no-explicit-any
  const problem = problemOf(config)
  if (problem !== undefined) throw new TypeError(problem)
  const local = isLocal(process.env, process.argv.slice(2))
  const { concurrency_modifier, handler, jobs_fetcher, jobs_handler, refresh_worker = false, return_aggregate_stream = false } =
    config
  if (!local && (jobs_fetcher !== undefined || jobs_handler !== undefined)) {
    log.warn("jobs_fetcher and jobs_handler are for local test mode only and are ignored here.")
  }
  const chosen = local && jobs_handler !== undefined ? jobs_handler : handler
  const runnable = isRunnable(chosen) ? chosen : fromFunction(chosen, { returnAggregateStream: return_aggregate_stream })
  Worker.launchWith({
    local: {
      // Loaded with --rp_serve_api alone: a worker of a platform starts without it.
      loadServer: () => import("@stint/worker-local"),
      ...(jobs_fetcher === undefined ? {} : { jobs: jobs_fetcher })
    }
  })(
    Worker.layer(runnable, {
      middleware,
      refreshWorker: refresh_worker,
      ...(concurrency_modifier === undefined ? {} : { concurrencyModifier: concurrency_modifier })
    }).pipe(
      Layer.provide(plugins),
      // Around all the others: their spans are a job's, too.
      Layer.provide(Telemetry.layer)
    )
  )
}

/**
 * Pipelines: typed, durable sequences of steps, jobs, waits and choices.
 *
 * ```ts
 * export const Gallery = Pipeline.make("gallery", { input: Album })
 *   .step("list", listPhotos)
 *   .forEach("thumbnail", Thumbnail, { concurrency: 8 })
 *   .step("page", (thumbnails, { input }) => render(input.title, thumbnails))
 *   .end(Page)
 *
 * Pipeline.layer(Gallery).pipe(Layer.provide(Photos.layer), Worker.launch)
 * ```
 *
 * A pipeline is a handler: its runs are jobs of an endpoint with its name. The result of each node is recorded in the platform's store. A run
 * therefore continues after a crash of the worker or the platform, and a recorded step does not run again.
 */
import type * as JobMiddleware from "@stint/worker/JobMiddleware"
import type { MainModule } from "@stint/worker/MainModule"
import * as Worker from "@stint/worker/Worker"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import type { Builder, Pipeline } from "./Builder.ts"
import { Building, typed } from "./Building.ts"
import type { Definition } from "./Definition.ts"
import { refOf } from "./Graph.ts"
import { Journal } from "./Journal.ts"
import * as WorkerJournal from "./WorkerJournal.ts"

/** @public */
export type { Pipeline } from "./Builder.ts"
/** The messages of wrong connections, for signatures that mention them. @public */
export type { DoesNotFit, NameTaken, NotJson } from "./Connections.ts"
/** @public */
export type { StepContext } from "./StepContext.ts"

/**
 * Begins a pipeline. Its name is the id of its endpoint, and the value of the first node is the run's input.
 *
 * Throws a TypeError if a name is invalid or already used; both are compile errors, too. `all` also throws a TypeError if two parts contain a stream.
 */
export const make = <const Name extends string, I extends Schema.ConstraintCodec<unknown, unknown>>(
  name: Name,
  options: { readonly input: I }
): Builder<Name, I, I["Type"], { readonly input: I["Type"] }, never> =>
  typed(new Building(name, options.input, [], new Set(["input"])))

/**
 * The number of concurrent runs in a worker. More than one, because a run that waits for a short job stays in its worker for a second. Not many more,
 * because steps in plain JavaScript share one thread.
 */
const CONCURRENCY = 16

/** Announces the definition to the platform when the worker starts, so that runs that wait for it continue. */
const announced = (definition: Definition) =>
  Layer.effectDiscard(
    Effect.flatMap(Journal, ({ announce }) =>
      announce === undefined ? Effect.void : Effect.asVoid(Effect.forkScoped(announce(refOf(definition)))))
  )

/**
 * The worker of a pipeline: `Worker.layer` with the journal of the worker's platform. In local test mode the journal is in memory.
 *
 * The layer requires the services of the steps, so a worker with a missing layer does not compile. `concurrency` is the number of concurrent runs
 * in the worker. Default: 16.
 *
 * @public
 */
export const layer = <
  Name extends string,
  I extends Schema.Constraint,
  O extends Schema.Constraint,
  R,
  const Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []
>(
  pipeline: Pipeline<Name, I, O, R>,
  options: Worker.Options<Middleware> = {}
) =>
  Layer.merge(
    Worker.layer(pipeline, { concurrency: CONCURRENCY, ...options }),
    announced(pipeline.definition)
  ).pipe(Layer.provide(WorkerJournal.layer))

/**
 * Runs the worker of a pipeline as this process's program, as `Worker.launch` does. The pipeline's steps must need no services. With
 * `import.meta` as `main` the worker starts only if the calling module is the program of the process, so that a test can import the pipeline.
 *
 * @public
 */
export const launch = <Name extends string, I extends Schema.Constraint, O extends Schema.Constraint>(
  pipeline: Pipeline<Name, I, O, never>,
  options: { readonly main?: MainModule; readonly concurrency?: number } = {}
): void => {
  const { main, ...others } = options
  Worker.launchWith(main === undefined ? {} : { main })(layer(pipeline, others))
}

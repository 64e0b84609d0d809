/**
 * What a debugger's report has to say about a job: plugins add fields, a debugger asks for them.
 *
 * Without a debugger nobody asks, and adding costs nothing per job.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"

/** Fields of the report on one job, asked for when the handler has ended. */
export type FieldSource = (job: ReceivedJob) => Effect.Effect<{ readonly [field: string]: Schema.Json }>

/** All sources of this worker. */
export class DebugFields extends Context.Service<DebugFields, {
  /** Adds a source; of two that give a field of the same name, the later one counts. */
  readonly add: (source: FieldSource) => Effect.Effect<void>
  /** The fields of all sources. */
  readonly of: FieldSource
}>()("@stint/worker/DebugFields") {}

/** An empty list that plugins add to. */
export const layer: Layer.Layer<DebugFields> = Layer.sync(DebugFields, () => {
  const sources: Array<FieldSource> = []
  return {
    add: (source) => Effect.sync(() => void sources.push(source)),
    of: (job) => Effect.map(Effect.forEach(sources, (source) => source(job)), (all) => Object.assign({}, ...all))
  }
})

/** A layer that adds one source: what a plugin merges into its own layer. */
export const layerOf = (source: FieldSource): Layer.Layer<never, never, DebugFields> =>
  Layer.effectDiscard(Effect.flatMap(DebugFields, ({ add }) => add(source)))

/**
 * The models on this machine, as the autoscaler and the server see them. `HostModels` implements it; a platform whose endpoints have no model
 * does not load it.
 */
import type { ModelCache, ModelDownload, ModelId, ModelReference } from "@stint/contract/Model"
import type { SecretName } from "@stint/contract/Secret"
import type { WorkerModel } from "@stint/pool/WorkerModel"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { ModelError } from "./ModelError.ts"

/** The state of a model. */
export type ModelState =
  | { readonly _tag: "Ready" }
  | {
    readonly _tag: "Downloading"
    /** Bytes on the disk. */
    readonly received: number
    /** Bytes; undefined until the hub has listed the files. */
    readonly total: number | undefined
    /** The bytes that existed when the download began, and when it began, in milliseconds since 1970. */
    readonly receivedBefore: number
    readonly since: number
    /** Why the last request to the hub failed, while it is being retried. Undefined once more bytes have arrived. */
    readonly problem?: string | undefined
  }
  | { readonly _tag: "Failed"; readonly reason: string; /** Milliseconds since 1970. */ readonly retryAt: number }

/** The request cannot be carried out in the current state. */
export class ModelsRefused extends Schema.TaggedError<ModelsRefused>()("ModelsRefused", {
  /** `missing`: there is no such model in the cache. `busy`: workers use it, or it is being downloaded. `none`: there is no usable cache. */
  kind: Schema.Literals(["missing", "busy", "none"]),
  message: Schema.String,
  hint: Schema.String
}) {}

/** The settings of an endpoint that name its model. */
export interface UsingModel {
  readonly model?: ModelReference
  /** The secret that contains the hub's token. */
  readonly modelToken?: { readonly secret: SecretName }
}

/** The cache without the endpoints that use its models. */
export type CacheContents = Omit<ModelCache, "models"> & {
  readonly models: ReadonlyArray<Omit<ModelCache["models"][number], "endpoints">>
}

/** The operations. Endpoints without a model are ready. */
export interface ModelsService {
  /**
   * The state of the endpoint's model. Starts its download if it is absent, and retries a failed download once its `retryAt` has passed. `again`:
   * even before that. Returns without waiting for the download.
   */
  readonly prepare: (endpoint: UsingModel, again?: "again") => Effect.Effect<ModelState>
  /** The state that this process knows; undefined before `prepare`, and for endpoints without a model. */
  readonly stateOf: (endpoint: UsingModel) => ModelState | undefined
  /** Completes when the model is no longer being downloaded. */
  readonly settled: (endpoint: UsingModel) => Effect.Effect<void>
  /** Protects the endpoint's model from removal while the scope is open. Undefined for an endpoint without one. */
  readonly hold: (endpoint: UsingModel) => Effect.Effect<WorkerModel | undefined, ModelError, Scope.Scope>
  /** The models in the cache, and the downloads. */
  readonly list: Effect.Effect<CacheContents, ModelsRefused>
  /** Starts a download, even of an existing model, because a branch may have moved. */
  readonly pull: (model: ModelReference, token: SecretName | undefined) => Effect.Effect<ModelDownload, ModelsRefused>
  /** Removes all commits of a model. Returns the number of bytes that this freed. */
  readonly remove: (id: ModelId) => Effect.Effect<number, ModelsRefused>
}

const noCache = Effect.fail(
  new ModelsRefused({
    kind: "none",
    message: "This platform has no cache of models.",
    hint: "Provide `Models.layerLazy` with `HostModels.make`."
  })
)

/** Default: a platform without a cache, on which endpoints with a model do not start workers. */
export const Models = Context.Reference<ModelsService>("@stint/models/Models", {
  defaultValue: () => {
    const state = ({ model }: UsingModel): ModelState =>
      model === undefined
        ? { _tag: "Ready" }
        : {
          _tag: "Failed",
          reason: `The model ${model} is not available: this platform has no cache of models.`,
          retryAt: Infinity
        }
    return {
      prepare: (endpoint) => Effect.succeed(state(endpoint)),
      stateOf: (endpoint) => endpoint.model === undefined ? undefined : state(endpoint),
      settled: () => Effect.void,
      hold: ({ model }) =>
        model === undefined
          ? Effect.succeed(undefined)
          : Effect.fail(
            new ModelError({
              model,
              problem: "this platform has no cache of models",
              hint: "Remove the model.",
              isTransient: false
            })
          ),
      list: noCache,
      pull: () => noCache,
      remove: () => noCache
    }
  }
})

/** The service, which is loaded when the first endpoint has a model, or when models are listed or changed. */
export const layerLazy = (load: Effect.Effect<ModelsService, never, Scope.Scope>): Layer.Layer<never> =>
  Layer.effect(
    Models,
    Effect.gen(function*() {
      const scope = yield* Scope.Scope
      const loading = Semaphore.makeUnsafe(1)
      let loaded: ModelsService | undefined
      const service = Effect.suspend(() =>
        loaded === undefined
          ? loading.withPermit(Effect.suspend(() =>
            loaded === undefined
              ? Effect.tap(Scope.provide(load, scope), (made) =>
                Effect.sync(() => {
                  loaded = made
                }))
              : Effect.succeed(loaded)
          ))
          : Effect.succeed(loaded)
      )
      const ready: ModelState = { _tag: "Ready" }
      return {
        prepare: (endpoint, again) =>
          endpoint.model === undefined ? Effect.succeed(ready) : Effect.flatMap(service, (one) => one.prepare(endpoint, again)),
        stateOf: (endpoint) => loaded?.stateOf(endpoint),
        settled: (endpoint) => loaded?.settled(endpoint) ?? Effect.void,
        hold: (endpoint) =>
          endpoint.model === undefined ? Effect.succeed(undefined) : Effect.flatMap(service, (one) => one.hold(endpoint)),
        list: Effect.flatMap(service, (one) => one.list),
        pull: (model, token) => Effect.flatMap(service, (one) => one.pull(model, token)),
        remove: (id) => Effect.flatMap(service, (one) => one.remove(id))
      }
    })
  )

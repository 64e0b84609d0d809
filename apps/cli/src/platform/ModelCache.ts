/**
 * The model cache, which is loaded once an endpoint has a model.
 */
import * as GuardedHttp from "@stint/http-guard/GuardedHttp"
import * as Resolver from "@stint/http-guard/Resolver"
import * as Models from "@stint/models/Models"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { homeOf, type ModelSettings } from "../config/ModelsConfig.ts"

/** The operator chooses the hub, which may be a mirror in a private network. */
const http = GuardedHttp.layerWith({ allowPrivate: true }).pipe(Layer.provide(Resolver.layer), Layer.orDie)

/** `cacheDir`: a folder that the workers' user can read. */
export const layer = (settings: ModelSettings, cacheDir: string): Layer.Layer<never> =>
  Models.layerLazy(
    Effect.gen(function*() {
      const HostModels = yield* Effect.promise(() => import("@stint/models/HostModels"))
      const context = yield* Layer.build(http)
      return yield* Effect.provideContext(
        HostModels.make({ home: homeOf(settings, cacheDir), hubUrl: settings.hubUrl, maxBytes: settings.maxBytes }),
        context
      )
    })
  )

/**
 * The model cache of a server under test: a real cache in a temporary folder, filled from a test hub. Both start on the first request that
 * needs them.
 */
import * as GuardedHttp from "@stint/http-guard/GuardedHttp"
import * as Resolver from "@stint/http-guard/Resolver"
import * as HostModels from "@stint/models/HostModels"
import * as Models from "@stint/models/Models"
import { makeTestHub, type TestHub } from "@stint/models/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** The hub. */
export class TestModels extends Context.Service<TestModels, { readonly hub: Effect.Effect<TestHub> }>()(
  "@stint/server-testing/TestModels"
) {}

const layerHub = Layer.effect(
  TestModels,
  Effect.gen(function*() {
    const scope = yield* Scope.Scope
    return { hub: yield* Effect.cached(Scope.provide(makeTestHub, scope)) }
  })
)

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "stint-models-"))),
  (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
)

const layerCache = Layer.unwrap(Effect.gen(function*() {
  const { hub } = yield* TestModels
  return Models.layerLazy(Effect.gen(function*() {
    const http = yield* Layer.build(
      GuardedHttp.layerWith({ allowPrivate: true }).pipe(Layer.provide(Resolver.layer), Layer.orDie)
    )
    const { url } = yield* hub
    const home = yield* folder
    return yield* Effect.provideContext(HostModels.make({ home, hubUrl: url, retryMs: 1, minFreeBytes: 0 }), http)
  }))
}))

export const layer: Layer.Layer<TestModels> = Layer.provideMerge(layerCache, layerHub)

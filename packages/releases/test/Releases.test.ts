import { assert, it } from "@effect/vitest"
import { EndpointSpec } from "@stint/contract/Endpoint"
import * as CodeArtifacts from "@stint/pool/CodeArtifacts"
import * as EndpointStore from "@stint/store/EndpointStore"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Releases from "../src/Releases.ts"

const decodeSpec = Schema.decodeUnknownSync(EndpointSpec)

/** More than the number of releases that are stored. */
const MANY = 25

it.effect("does not give all jobs to a canary, or to one that has failed, because a platform restarts with its configuration", () =>
  Effect.gen(function*() {
    const { deploy, promote, redeploy } = yield* Releases.Releases
    const endpoints = yield* EndpointStore.EndpointStore
    const store = yield* ReleaseStore
    const spec = (version: string) =>
      decodeSpec({ id: "word", source: { type: "command", command: ["word"] }, workers: { min: 0, max: 1 }, env: { version } })
    const canary = { percent: 10, minJobs: 50, maxPoints: 5 }
    const current = Effect.map(
      endpoints.get("word"),
      (endpoint) => [endpoint?.release, endpoint?.env["version"], endpoint?.canary?.release]
    )
    const id = spec("1").id
    yield* deploy({ spec: spec("1"), createdBy: "test" })
    yield* deploy({ spec: spec("2"), createdBy: "test", canary })
    yield* redeploy({ spec: spec("2"), createdBy: "configuration" })
    assert.deepStrictEqual(yield* current, [1, "1", 2])
    yield* store.settle(id, 2, { _tag: "Failed", reason: "wrong results" })
    yield* redeploy({ spec: spec("2"), createdBy: "configuration" })
    assert.deepStrictEqual(yield* current, [1, "1", undefined])
    // Another configuration is deployed, and so is this one by hand.
    yield* redeploy({ spec: spec("3"), createdBy: "configuration" })
    assert.deepStrictEqual(yield* current, [3, "3", undefined])
    yield* deploy({ spec: spec("2"), createdBy: "test" })
    assert.deepStrictEqual(yield* current, [4, "2", undefined])
    assert.strictEqual((yield* Effect.flip(promote(id)))._tag, "CanaryMissing")
  }).pipe(Effect.provide(
    Releases.layer.pipe(Layer.provide(CodeArtifacts.layerNone), Layer.provideMerge(EndpointStore.layerMemory))
  )))

it.effect("removes the code of old releases after a deployment, and leaves it while a backup holds the lock", () =>
  Effect.gen(function*() {
    const sweepLock = yield* Semaphore.make(1)
    let deployed = 0
    let code: ReadonlySet<string> = new Set()
    const artifacts = CodeArtifacts.CodeArtifacts.of({
      freeze: () =>
        Effect.sync(() => {
          const hash = String(++deployed).padStart(64, "0")
          code = new Set([...code, hash])
          return { hash, files: [] }
        }),
      retain: (hashes) =>
        Effect.sync(() => {
          code = new Set([...code].filter((hash) => hashes.has(hash)))
        })
    })
    yield* Effect.gen(function*() {
      const { deploy } = yield* Releases.Releases
      const spec = decodeSpec({ id: "word", source: { type: "handler", file: "/srv/word.ts" }, workers: { min: 0, max: 0 } })
      const release = deploy({ spec, createdBy: "test" })
      yield* sweepLock.withPermits(1)(Effect.replicateEffect(release, MANY, { discard: true }))
      assert.strictEqual(code.size, MANY)
      yield* release
      assert.strictEqual(code.size, 20)
    }).pipe(Effect.provide(
      Releases.layerWith({ sweepLock }).pipe(
        Layer.provide(Layer.succeed(CodeArtifacts.CodeArtifacts, artifacts)),
        Layer.provide(EndpointStore.layerMemory)
      )
    ))
  }))

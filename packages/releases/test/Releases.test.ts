import { assert, it } from "@effect/vitest"
import { EndpointSpec } from "@stint/contract/Endpoint"
import { CodeArtifacts } from "@stint/pool/CodeArtifacts"
import * as EndpointStore from "@stint/store/EndpointStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Releases from "../src/Releases.ts"

const decodeSpec = Schema.decodeUnknownSync(EndpointSpec)

/** More than the number of releases that are stored. */
const MANY = 25

it.effect("removes the code of old releases after a deployment, and leaves it while a backup holds the lock", () =>
  Effect.gen(function*() {
    const sweepLock = yield* Semaphore.make(1)
    let deployed = 0
    let code: ReadonlySet<string> = new Set()
    const artifacts = CodeArtifacts.of({
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
        Layer.provide(Layer.succeed(CodeArtifacts, artifacts)),
        Layer.provide(EndpointStore.layerMemory)
      )
    ))
  }))

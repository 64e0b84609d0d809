/**
 * Secrets of the workers that the autoscaler starts: their values, their replacement after a change, and secrets that do not exist.
 */
import { assert, describe, it } from "@effect/vitest"
import { SecretName } from "@stint/contract/Secret"
import * as MemoryWorkerPool from "@stint/pool/MemoryWorkerPool"
import { WorkerRegistry } from "@stint/queue"
import { layer as layerSecrets, Secrets } from "@stint/secrets/Secrets"
import * as SecretsKey from "@stint/secrets/SecretsKey"
import * as SecretStore from "@stint/store/SecretStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { after, deploy, jobOf, now, onPlatform, started, submit, type withoutAutoscaler } from "./TestPlatform.ts"

const secrets = layerSecrets.pipe(Layer.provide([SecretStore.layerMemory, SecretsKey.layerMemory]))

const test = (title: string, body: () => Effect.Effect<void, unknown, Layer.Success<typeof withoutAutoscaler>>) =>
  it.effect(title, () => Effect.provide(onPlatform(body()), secrets))

const set = (name: string, value: string) =>
  Effect.flatMap(Secrets, ({ set }) => set(SecretName.make(name), Redacted.make(value)))

const USES = { VERSION: { secret: "version" } }

/** The values of the running workers. */
const values = Effect.map(
  Effect.flatMap(MemoryWorkerPool.Faults, ({ running }) => running),
  (workers) => workers.map(({ endpoint }) => endpoint.env["VERSION"] ?? "none")
)

describe("Autoscaler: secrets", () => {
  test("starts workers with the values of secrets, and stores none in the endpoint", () =>
    Effect.gen(function*() {
      yield* set("version", "value-number-1")
      const endpoint = yield* deploy({ workers: { min: 2 }, env: { ...USES, MODE: "eu" } })
      assert.deepStrictEqual(endpoint.env, { VERSION: { secret: SecretName.make("version") }, MODE: "eu" })
      yield* after(100)
      assert.deepStrictEqual(yield* values, ["value-number-1", "value-number-1"])
    }))

  test("replaces the workers after a change to a secret that they use: idle ones at once, busy ones after their job", () =>
    Effect.gen(function*() {
      yield* set("version", "value-number-1")
      const endpoint = yield* deploy({ workers: { min: 2 }, env: USES })
      yield* after(100)
      const job = yield* submit(endpoint, { ms: 20_000 })
      yield* now
      yield* set("version", "value-number-2")
      yield* after(1_000)
      assert.deepStrictEqual((yield* values).toSorted(), ["value-number-1", "value-number-2", "value-number-2"])
      yield* after("21 seconds")
      assert.deepStrictEqual(yield* values, ["value-number-2", "value-number-2"])
      const done = yield* jobOf(endpoint, job)
      assert.deepStrictEqual([done.status, done.retries], ["COMPLETED", 0])
    }))

  test("replaces no worker when a secret is set to the same value, or another secret changes", () =>
    Effect.gen(function*() {
      yield* set("version", "value-number-1")
      yield* deploy({ workers: { min: 2 }, env: USES })
      yield* after("1 minute")
      assert.strictEqual(yield* started, 2)
      yield* set("version", "value-number-1")
      yield* set("other", "value-number-1")
      yield* after("1 minute")
      assert.strictEqual(yield* started, 2)
    }))

  test("reports a secret that does not exist as the reason for the failed start, and starts at once when it is set", () =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* deploy({ env: USES })
      const job = yield* submit(endpoint)
      // Long enough for several failures, so that the next start is seconds away.
      yield* after("1 minute")
      const [failed] = yield* registry.list(endpoint.id)
      assert.strictEqual(failed?.state, "unhealthy")
      assert.strictEqual(
        failed?.reason,
        "The variable VERSION needs the secret \"version\", which does not exist. Set it: stint secrets set version"
      )
      assert.strictEqual(yield* started, 0)
      yield* set("version", "value-number-1")
      yield* after(1_000)
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
    }))

  test("masks the values in the last output of a crashed worker, which becomes the error of its job", () =>
    Effect.gen(function*() {
      yield* set("version", "value-number-1")
      const endpoint = yield* deploy({ env: USES, maxAttempts: 1 })
      const job = yield* submit(endpoint, { print: ["connecting with value-number-1"], exit: 3 })
      yield* after("10 seconds")
      const { error, status } = yield* jobOf(endpoint, job)
      assert.strictEqual(status, "FAILED")
      assert.include(error ?? "", "connecting with [secret version]")
      assert.notInclude(error ?? "", "value-number-1")
    }))
})

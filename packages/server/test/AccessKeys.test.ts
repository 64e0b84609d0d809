import { expect, it } from "@effect/vitest"
import * as KeyStore from "@stint/store/KeyStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Hmac } from "node:crypto"
import { vi } from "vitest"
import * as AccessKeys from "../src/auth/AccessKeys.ts"

const keys = AccessKeys.layer(AccessKeys.secretsOf(Redacted.make("test-key-1234567890"))).pipe(
  Layer.provide(KeyStore.layerMemory)
)

const countDerivations = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => vi.spyOn(Hmac.prototype, "digest")),
    (spy) => Effect.sync(() => spy.mockRestore())
  ),
  (spy) => () => spy.mock.calls.length
)

/** The calls of 2,000 workers of 100 endpoints. */
const calls = Array.from({ length: 2_000 }, (_, n) => ({ endpoint: `e-${n % 100}`, worker: `w-${n}` }))

it.effect("derives the keys of thousands of workers once, and not on each call", () =>
  Effect.gen(function*() {
    const { identifyWorker, workerKey } = yield* AccessKeys.AccessKeys
    const own = calls.map(({ endpoint, worker }) => workerKey(endpoint, worker))
    const shared = calls.map(({ endpoint }) => workerKey(endpoint))
    const derivations = yield* countDerivations
    const identify = (presented: ReadonlyArray<Redacted.Redacted>) =>
      new Set(calls.map(({ endpoint, worker }, n) => identifyWorker(endpoint, worker, presented[n] ?? Redacted.make(""))))

    expect(identify(shared)).toEqual(new Set(["endpoint"]))
    expect(derivations()).toBe(100)
    expect(identify(own)).toEqual(new Set(["worker"]))
    expect(derivations()).toBe(2_100)
    for (let round = 0; round < 3; round++) {
      identify(shared)
      identify(own)
    }
    expect(derivations()).toBe(2_100)
  }).pipe(Effect.provide(keys)))

it.effect("evicts no key in use when other keys fill the cache", () =>
  Effect.gen(function*() {
    const { identifyWorker, workerKey } = yield* AccessKeys.AccessKeys
    const key = workerKey("e", "w")
    const derivations = yield* countDerivations
    expect(identifyWorker("e", "w", key)).toBe("worker")
    const wrong = Redacted.make("stint_worker_wrong")
    for (let n = 0; n < 30_000; n++) {
      expect(identifyWorker("e", `invented-${n}`, wrong)).toBe(undefined)
      if (n % 1_000 === 0) identifyWorker("e", "w", key)
    }
    expect(derivations()).toBe(2 + 30_000)
  }).pipe(Effect.provide(keys)))

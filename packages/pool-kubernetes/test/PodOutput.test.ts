import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/testing/TestClock"
import { ApiRefused, type KubernetesError } from "../src/KubernetesError.ts"
import * as PodOutput from "../src/PodOutput.ts"
import type { PodsApi } from "../src/PodsApi.ts"

const outputOf = (logs: PodsApi["logs"], written: Array<string>) => {
  const unused = Effect.die("not used")
  const api: PodsApi = { create: () => unused, remove: () => unused, watch: () => unused, list: unused, logs }
  const sink = {
    write: (_: string, line: string) => Effect.sync(() => void written.push(line)),
    lastLines: () => []
  }
  return PodOutput.make(api, "stint-w-1", sink, undefined, () => undefined)
}

describe("the output of a pod", () => {
  it.effect("is read again from its last line when a stream never ends, as after a connection that broke silently", () =>
    Effect.gen(function*() {
      const written: Array<string> = []
      const from: Array<string | undefined> = []
      const output = outputOf((_, { since }, onChunk) => {
        from.push(since)
        const a = "2026-11-23T10:00:00.1Z a\n"
        return Effect.andThen(onChunk(Buffer.from(from.length === 1 ? a : `${a}2026-11-23T10:00:00.2Z b\n`)), Effect.never)
      }, written)
      const following = yield* Effect.forkScoped(output.follow)
      yield* TestClock.adjust("11 minutes")
      assert.deepStrictEqual(from, [undefined, "2026-11-23T10:00:00Z"])
      assert.deepStrictEqual(written, ["a", "b"])
      yield* Fiber.interrupt(following)
    }))

  it.effect("that the platform may not read is logged once", () =>
    Effect.gen(function*() {
      const logged: Array<string> = []
      const refusal: KubernetesError = new ApiRefused({
        status: 403,
        reason: "Forbidden",
        problem: `User "stint" cannot get resource "pods/log"`
      })
      const output = outputOf(() => Effect.fail(refusal), [])
      const following = yield* Effect.forkScoped(
        Effect.provide(output.follow, Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))]))
      )
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.interrupt(following)
      assert.deepStrictEqual(logged.filter((line) => line.startsWith("The output of pod stint-w-1 cannot be read.")).length, 1)
    }))
})

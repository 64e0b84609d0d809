/**
 * Tests a handler with a different layer, without mocks and without a running worker.
 */
import { describe, expect, it } from "@effect/vitest"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import { Greeting } from "../Greeting.ts"
import * as Translations from "../Translations.ts"

const pirate = Translations.layerFrom({ pirate: "Ahoy, {name}!" })

describe("greeting", () => {
  it.effect("greets in the language of the layer that the test provides", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Greeting, { name: "Ada", language: "pirate" })
      expect(result).toMatchObject({ status: "COMPLETED", output: { greeting: "Ahoy, Ada!" } })
    }).pipe(Effect.provide(pirate)))

  it.effect("fails with a list of the known languages for an unknown language", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Greeting, { name: "Ada", language: "fr" })
      expect(result.status).toBe("FAILED")
      expect(result.error).toContain("UnknownLanguage")
      expect(result.error).toContain("pirate")
    }).pipe(Effect.provide(pirate)))

  it.effect("greets in French with the real translations", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Greeting, { name: "Ada", language: "fr" })
      expect(result).toMatchObject({ status: "COMPLETED", output: { greeting: "Bonjour, Ada !" } })
    }).pipe(Effect.provide(Translations.layer)))
})

import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Handler } from "../src/index.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import { job, services, start } from "./MemoryWorker.ts"

const failing = Handler.fromFunction(({ input }) => {
  if (input === "throws") throw new RangeError("too far")
  return { error: "the picture is empty" }
})

// docs/spec/handler.md#returned-values
describe("the ERROR line of a failed job", () => {
  it.effect("contains the error that the handler returned", () => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(failing)
      yield* memory.submit(job("j1", "returns"))
      yield* memory.nextDone
      expect(log.filter(({ level }) => level === "ERROR")).toMatchObject([
        { requestId: "j1", message: expect.stringMatching(/^The job failed after \d+ ms: the picture is empty$/) }
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("of an exception starts with the thrown error and its location, on separate lines", () => {
    const { layer, log } = services()
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(failing)
      yield* memory.submit(job("j1", "throws"))
      yield* memory.nextDone
      expect(log.filter(({ level }) => level === "ERROR")).toMatchObject([
        {
          requestId: "j1",
          message: expect.stringMatching(/^The job failed after \d+ ms: RangeError: too far\n +at .*FailureLog\.test\.ts/)
        }
      ])
    }).pipe(Effect.provide(layer))
  })
})

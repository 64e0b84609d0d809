/**
 * Lists of 10,000 items: every item once, in order, never more at once than allowed, even when the worker is killed.
 */
import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { describe } from "vitest"
import { Pipeline } from "../src/index.ts"
import { PipelineTest } from "../src/testing/index.ts"

const ITEMS = 10_000
const CONCURRENCY = 64
const LIMIT = 300_000

const numbers = Array.from({ length: ITEMS }, (_, index) => index)

describe("a forEach of 10,000 items", () => {
  it.live("runs each step once, in order and within its concurrency, after a crash in the middle", () =>
    Effect.gen(function*() {
      const begun = new Map<number, number>()
      const recorded = new Set<string>()
      const again: Array<string> = []
      let running = 0
      let most = 0
      let records = 0
      const pipeline = Pipeline.make("many", { input: Schema.Number })
        .step("list", () => numbers)
        .forEach("each", async (n, _, { path }) => {
          begun.set(n, (begun.get(n) ?? 0) + 1)
          if (recorded.has(path)) again.push(path)
          most = Math.max(most, ++running)
          await Promise.resolve()
          running--
          return n * 2
        }, { concurrency: CONCURRENCY })
        .end(Schema.Array(Schema.Number))
      const { activations, output, status } = yield* PipelineTest.run(pipeline, 0, {
        crash: ({ kind, path }, when) => {
          if (when !== "after" || kind !== "step") return false
          recorded.add(path)
          return ++records === ITEMS / 2
        }
      })
      expect(status).toBe("COMPLETED")
      expect(output).toEqual(numbers.map((n) => n * 2))
      expect(activations).toBe(2)
      expect(again).toEqual([])
      expect(begun.size).toBe(ITEMS)
      expect(most).toBeLessThanOrEqual(CONCURRENCY)
    }), LIMIT)

  it.live("runs each job once, in order and within its concurrency, and does not wake for each", () =>
    Effect.gen(function*() {
      let running = 0
      let most = 0
      let jobs = 0
      const target = Pipeline.make("double", { input: Schema.Number }).step("n", (n) => n * 2).end(Schema.Number)
      const pipeline = Pipeline.make("many", { input: Schema.Number })
        .step("list", () => numbers)
        .forEach("each", target, { concurrency: CONCURRENCY })
        .end(Schema.Array(Schema.Number))
      const { output, status } = yield* PipelineTest.run(pipeline, 0, {
        endpoints: {
          double: async (input) => {
            jobs++
            most = Math.max(most, ++running)
            await Promise.resolve()
            running--
            return Number(input) * 2
          }
        }
      })
      expect(status).toBe("COMPLETED")
      expect(output).toEqual(numbers.map((n) => n * 2))
      expect(jobs).toBe(ITEMS)
      expect(most).toBeLessThanOrEqual(CONCURRENCY)
    }), LIMIT)
})

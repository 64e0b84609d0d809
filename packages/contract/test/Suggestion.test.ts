import { expect, it } from "@effect/vitest"
import { didYouMean, nearest } from "../src/Suggestion.ts"

const keys = ["handler", "return_aggregate_stream", "concurrency_modifier", "refresh_worker"]

it.each([
  ["hander", "handler"],
  ["Handler", "handler"],
  ["returnAggregateStream", "return_aggregate_stream"],
  ["concurrency_modifer", "concurrency_modifier"],
  ["refreshWorkers", "refresh_worker"],
  ["concurrency", "concurrency_modifier"],
  ["hanlder", "handler"]
])("%s is corrected to %s", (word, meant) => {
  expect(nearest(word, keys)).toBe(meant)
  expect(didYouMean(word, keys)).toBe(` Did you mean "${meant}"?`)
})

it.each(["timeout", "x", ""])("%j has no suggestion", (word) => {
  expect(nearest(word, keys)).toBeUndefined()
  expect(didYouMean(word, keys)).toBe("")
})

it("two swapped letters count as one mistake", () => {
  expect(nearest("widht", ["width"])).toBe("width")
  expect(nearest("ulr", ["url"])).toBe("url")
})

it("a single letter has no suggestion", () => {
  expect(nearest("z", ["a"])).toBeUndefined()
})

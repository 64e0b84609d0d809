import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import {
  EVERYTHING,
  type JobSearch,
  matchesSearch,
  MAX_SEARCH_LENGTH,
  parseSearch,
  printSearch,
  restrictedTo,
  searchRange
} from "../src/jobs/JobSearch.ts"

const value = fc.oneof(
  fc.string({ minLength: 1, maxLength: 20 }),
  fc.string({ unit: fc.constantFrom("\"", "\\", " ", "a", ":", "\n"), minLength: 1, maxLength: 12 })
)
const some = <A>(one: fc.Arbitrary<A>) => fc.uniqueArray(one, { maxLength: 3 })
const time = fc.oneof(
  fc.record({ ago: fc.integer({ min: 0, max: 10_000 * 86_400_000 }) }),
  fc.record({ at: fc.integer({ min: 0, max: Date.UTC(9999, 0) }) })
)

const search: fc.Arbitrary<JobSearch> = fc.record({
  endpoint: some(value),
  status: some(fc.constantFrom("IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT")),
  release: some(fc.integer({ min: 1, max: 999_999_999 })),
  tag: some(value),
  worker: some(value),
  batch: some(value),
  error: some(value),
  "error-group": some(value),
  since: time,
  before: time
}, { requiredKeys: ["endpoint", "status", "release", "tag", "worker", "batch", "error", "error-group"] })

const parsed = (text: string): JobSearch => {
  const { problem, search: found } = parseSearch(text)
  if (found === undefined) throw new Error(`${problem.message} at ${problem.position} of ${text}`)
  return found
}

const problemOf = (text: string) => {
  const { problem } = parseSearch(text)
  if (problem === undefined) throw new Error(`${text} has no problem`)
  return problem
}

describe("the text query of jobs", () => {
  it("parses every key, and prints it in one order", () => {
    const text =
      "  SINCE:2h status:Failed error:\"out of \\\"memory\\\"\" tag:nightly status:TIMED_OUT endpoint:resize release:12 status:failed "
    expect(parsed(text)).toEqual({
      ...EVERYTHING,
      endpoint: ["resize"],
      status: ["FAILED", "TIMED_OUT"],
      release: [12],
      tag: ["nightly"],
      error: ["out of \"memory\""],
      since: { ago: 7_200_000 }
    })
    expect(printSearch(parsed(text))).toBe(
      "endpoint:resize status:failed status:timed_out release:12 tag:nightly error:\"out of \\\"memory\\\"\" since:2h"
    )
    expect(parsed("")).toEqual(EVERYTHING)
    expect(parsed("before:2026-11-22").before).toEqual({ at: Date.UTC(2026, 10, 22) })
    expect(parsed("before:2026-11-22T14:00:00+02:00").before).toEqual({ at: Date.UTC(2026, 10, 22, 12) })
    expect(parsed("tag:a:b").tag).toEqual(["a:b"])
  })

  it("knows the names that the API, the console and the command line use for each status", () => {
    const names = ["IN_QUEUE", "waiting", "in_progress", "running", "done", "completed", "cancelled", "timed_out"]
    expect(names.map((name) => parsed(`status:${name}`).status[0])).toEqual([
      "IN_QUEUE",
      "IN_QUEUE",
      "IN_PROGRESS",
      "IN_PROGRESS",
      "COMPLETED",
      "COMPLETED",
      "CANCELLED",
      "TIMED_OUT"
    ])
  })

  it("reads back every query that it prints", () => {
    fc.assert(fc.property(search, (one) => {
      const text = printSearch(one)
      fc.pre(text.length <= MAX_SEARCH_LENGTH)
      expect(parsed(text)).toEqual(one)
      expect(printSearch(parsed(text))).toBe(text)
    }))
  })

  it("reads back the times at the ends of the calendar, and refuses times beyond them, which it could not print", () => {
    const last = "before:9999-12-31T23:59:59+01:00"
    expect(parsed(printSearch(parsed(last)))).toEqual(parsed(last))
    expect(problemOf("before:9999-12-31T23:59:59-01:00")).toMatchObject({ position: 7 })
    expect(problemOf("since:0000-01-01T00:00:00+01:00")).toMatchObject({ position: 6 })
  })

  it("ends for every text, with a query that prints the same again, or with a position within the text and advice", () => {
    const piece = fc.constantFrom(
      "status:",
      "failed",
      "tag:",
      "\"",
      "\\",
      " ",
      ":",
      "since:",
      "2h",
      "x",
      "error:",
      "release:",
      "7"
    )
    const text = fc.oneof(fc.string({ maxLength: 60 }), fc.array(piece, { maxLength: 12 }).map((parts) => parts.join("")))
    fc.assert(
      fc.property(text, (one) => {
        const { problem, search: found } = parseSearch(one)
        if (found !== undefined) {
          const printed = printSearch(found)
          expect(printSearch(parsed(printed))).toBe(printed)
          return
        }
        expect(problem.position).toBeGreaterThanOrEqual(0)
        expect(problem.position).toBeLessThanOrEqual(one.length)
        expect(problem.message).not.toBe("")
        expect(problem.hint).not.toBe("")
      }),
      { numRuns: 1_000 }
    )
  })

  it("names the position of a mistake and what to write instead", () => {
    expect(problemOf("status:failed memory")).toMatchObject({ position: 14, hint: expect.stringContaining("error:memory") })
    expect(problemOf("stats:failed")).toMatchObject({ position: 0, message: expect.stringContaining("Did you mean \"status\"?") })
    expect(problemOf("tag:a status:faild")).toMatchObject({
      position: 13,
      message: expect.stringContaining("Did you mean \"failed\"?")
    })
    expect(problemOf("since:2h since:3h")).toMatchObject({ position: 9 })
    expect(problemOf("since:yesterday")).toMatchObject({ position: 6, hint: expect.stringContaining("since:2h") })
    expect(problemOf("error:\"a b")).toMatchObject({ position: 6, message: expect.stringContaining("closing quote") })
    expect(problemOf("error:\"a\"b")).toMatchObject({ position: 9 })
    expect(problemOf("error:a\"b\"")).toMatchObject({ position: 7 })
    expect(problemOf("tag: nightly")).toMatchObject({ position: 4 })
    expect(problemOf("release:r12")).toMatchObject({ position: 8 })
    expect(problemOf("x".repeat(MAX_SEARCH_LENGTH + 1))).toMatchObject({ position: MAX_SEARCH_LENGTH })
  })

  it("matches any of several statuses, and all of several tags and error texts", () => {
    const job = {
      endpoint: "resize",
      status: "FAILED",
      release: 12,
      worker: "w-1",
      batchId: null,
      tags: ["nightly", "eu"],
      error: "CUDA: Out of memory (8 GB)",
      errorGroup: "0123456789abcdef"
    } as const
    const matches = (text: string) => matchesSearch(parsed(text), job)
    for (
      const text of [
        "",
        "status:failed status:timed_out endpoint:resize",
        "tag:nightly tag:eu",
        "error:\"out of memory\" error:cuda",
        "release:11 release:12",
        "worker:w-1",
        "error-group:0123456789abcdef error-group:other"
      ]
    ) expect(matches(text), text).toBe(true)
    for (
      const text of [
        "status:completed",
        "tag:nightly tag:us",
        "error:disk",
        "error-group:other",
        "release:11",
        "batch:b",
        "endpoint:other",
        "tag:EU"
      ]
    ) {
      expect(matches(text), text).toBe(false)
    }
  })

  it("leaves out the statuses in which an action changes no job", () => {
    expect(restrictedTo(parsed("tag:a"), "retry")?.status).toEqual(["FAILED", "TIMED_OUT"])
    expect(restrictedTo(parsed("status:failed status:waiting tag:a"), "cancel")).toEqual(parsed("status:waiting tag:a"))
    expect(restrictedTo(parsed("status:completed"), "retry")).toBeUndefined()
    expect(restrictedTo(parsed("status:completed"), "rerun")).toEqual(parsed("status:completed"))
  })

  it("resolves durations before now", () => {
    expect(searchRange(parsed("since:2h before:30m"), 10_000_000)).toEqual({ createdAfter: 2_800_000, createdBefore: 8_200_000 })
    expect(searchRange(EVERYTHING, 1)).toEqual({ createdAfter: undefined, createdBefore: undefined })
  })
})

import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import {
  EVERYTHING,
  type JobSearch,
  MAX_ALTERNATIVES,
  MAX_SEARCH_LENGTH,
  parseSearch,
  printSearch,
  printTerms,
  searchOf,
  type SearchTerms
} from "../src/jobs/JobSearch.ts"
import {
  coversEndpoint,
  matchesSearch,
  namedEndpoints,
  restrictedTo,
  searchedStatuses,
  searchRange
} from "../src/jobs/SearchMatch.ts"

const value = fc.oneof(
  fc.string({ minLength: 1, maxLength: 20 }),
  fc.string({ unit: fc.constantFrom("\"", "\\", " ", "a", ":", "\n"), minLength: 1, maxLength: 12 })
)
/** Values with at least one word. */
const words = fc.tuple(value, fc.constantFrom("ada", "Ünï9", "a b", "ab*")).map((parts) => parts.join(" "))
const some = <A>(one: fc.Arbitrary<A>) => fc.uniqueArray(one, { maxLength: 3 })
const time = fc.oneof(
  fc.record({ ago: fc.integer({ min: 0, max: 10_000 * 86_400_000 }) }),
  fc.record({ at: fc.integer({ min: 0, max: Date.UTC(9999, 0) }) })
)

const values = {
  endpoint: some(value),
  status: some(fc.constantFrom("IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT")),
  release: some(fc.integer({ min: 1, max: 999_999_999 })),
  tag: some(value),
  worker: some(value),
  batch: some(value),
  error: some(value),
  "error-group": some(value),
  input: some(words),
  output: some(words),
  text: some(words)
}

const terms: fc.Arbitrary<SearchTerms> = fc.record({ ...values, not: fc.record(values), since: time, before: time }, {
  requiredKeys: [
    "endpoint",
    "status",
    "release",
    "tag",
    "worker",
    "batch",
    "error",
    "error-group",
    "input",
    "output",
    "text",
    "not"
  ]
})

const search: fc.Arbitrary<JobSearch> = fc.oneof(
  fc.record({ any: fc.tuple(terms) }),
  fc.record({
    any: fc.uniqueArray(terms.filter((one) => printTerms(one) !== ""), { minLength: 2, maxLength: 4, selector: printTerms })
  })
)

const parsed = (text: string): JobSearch => {
  const { problem, search: found } = parseSearch(text)
  if (found === undefined) throw new Error(`${problem.message} at ${problem.position} of ${text}`)
  return found
}

/** The terms of a query without OR. */
const only = (text: string): SearchTerms => {
  const [one, ...more] = parsed(text).any
  if (one === undefined || more.length > 0) throw new Error(`${text} has ${more.length + 1} alternatives`)
  return one
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
    expect(parsed(text)).toEqual(searchOf({
      endpoint: ["resize"],
      status: ["FAILED", "TIMED_OUT"],
      release: [12],
      tag: ["nightly"],
      error: ["out of \"memory\""],
      since: { ago: 7_200_000 }
    }))
    expect(printSearch(parsed(text))).toBe(
      "endpoint:resize status:failed status:timed_out release:12 tag:nightly error:\"out of \\\"memory\\\"\" since:2h"
    )
    expect(parsed("")).toEqual(EVERYTHING)
    expect(only("before:2026-11-22").before).toEqual({ at: Date.UTC(2026, 10, 22) })
    expect(only("before:2026-11-22T14:00:00+02:00").before).toEqual({ at: Date.UTC(2026, 10, 22, 12) })
    expect(only("tag:a:b").tag).toEqual(["a:b"])
  })

  it("knows the names that the API, the console and the command line use for each status", () => {
    const names = ["IN_QUEUE", "waiting", "in_progress", "running", "done", "completed", "cancelled", "timed_out"]
    expect(names.map((name) => only(`status:${name}`).status[0])).toEqual([
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

  it("terminates for every text: with a query that prints the same again, or with advice and a position within the text", () => {
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
      "7",
      "-",
      "NOT ",
      " OR ",
      " AND ",
      "("
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
    expect(problemOf("status:failed memory")).toMatchObject({ position: 14, hint: expect.stringContaining("text:memory") })
    expect(problemOf("status:failed -text:-")).toMatchObject({ position: 20, message: "- has no letters or digits." })
    expect(problemOf("status:failed input:\"...\"")).toMatchObject({ position: 20 })
    expect(problemOf("output:a*")).toMatchObject({ position: 7, hint: expect.stringContaining("at least 2 characters") })
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

  it("reads NOT, a minus and OR, and prints them in one form", () => {
    const text =
      "status:failed -tag:nightly NOT error:\"disk full\" -STATUS:done AND since:2h OR tag:a NOT tag:a OR  tag:a -tag:a"
    expect(parsed(text).any).toHaveLength(2)
    expect(parsed(text).any[0]).toEqual({
      ...only("status:failed since:2h"),
      not: { ...EVERYTHING.any[0]?.not, status: ["COMPLETED"], tag: ["nightly"], error: ["disk full"] }
    })
    expect(printSearch(parsed(text))).toBe(
      "status:failed since:2h -status:completed -tag:nightly -error:\"disk full\" OR tag:a -tag:a"
    )
    // Words and a minus within values, and keys that look like words, keep their earlier meaning.
    expect(only("tag:-a tag:OR error:\"a OR b\" tag:NOT")).toEqual({
      ...only(""),
      tag: ["-a", "OR", "NOT"],
      error: ["a OR b"]
    })
    expect(problemOf("OR:a").message).toContain("There is no key \"OR\"")
  })

  it("says what is wrong with NOT, OR and parentheses, and what to write instead", () => {
    for (
      const [text, position, hint] of [
        ["OR tag:a", 0, "on both sides"],
        ["tag:a OR", 6, "on both sides"],
        ["tag:a OR OR tag:b", 6, "on both sides"],
        ["tag:a AND OR tag:b", 6, "on both sides"],
        ["AND tag:a", 0, "leave AND out"],
        ["tag:a AND", 6, "on both sides"],
        ["tag:a or tag:b", 6, "Write OR in capital letters"],
        ["not tag:a", 0, "Write NOT in capital letters"],
        ["NOT", 0, "-tag:nightly"],
        ["tag:a - tag:b", 6, "-tag:nightly"],
        ["NOT NOT tag:a", 4, "once before a term"],
        ["NOT OR tag:a", 4, "between two terms"],
        ["-since:2h", 1, "before:2h"],
        ["NOT before:2026-11-22", 4, "since:2026-11-22"],
        ["tag:a (status:failed OR tag:b)", 6, "status:failed tag:a OR status:failed tag:b"],
        ["--tag:a", 1, "The keys are"]
      ] as const
    ) expect(problemOf(text), text).toMatchObject({ position, hint: expect.stringContaining(hint) })
    const alternatives = (count: number) => Array.from({ length: count }, (_, index) => `tag:${index}`).join(" OR ")
    expect(parsed(alternatives(MAX_ALTERNATIVES)).any).toHaveLength(MAX_ALTERNATIVES)
    expect(problemOf(alternatives(MAX_ALTERNATIVES + 1)).message).toContain(`${MAX_ALTERNATIVES} alternatives`)
  })

  it("finds the statuses and endpoints that an alternative can match", () => {
    expect(searchedStatuses(only("-status:completed -status:cancelled"))).toEqual([
      "IN_QUEUE",
      "IN_PROGRESS",
      "FAILED",
      "TIMED_OUT"
    ])
    expect(searchedStatuses(only("status:failed -status:failed"))).toEqual([])
    expect(searchedStatuses(only("error-group:a -status:failed"))).toEqual(["TIMED_OUT"])
    expect([coversEndpoint(only("-endpoint:a"), "a"), coversEndpoint(only("-endpoint:a"), "b")]).toEqual([false, true])
    expect(namedEndpoints(parsed("endpoint:a tag:x OR endpoint:b OR endpoint:a"))).toEqual(["a", "b"])
    expect(namedEndpoints(parsed("endpoint:a OR tag:x"))).toBeUndefined()
  })

  it("matches any of several statuses, and all of several tags and error texts", () => {
    const job = {
      endpoint: "resize",
      status: "FAILED",
      createdAt: 1_000,
      release: 12,
      worker: "w-1",
      batchId: null,
      tags: ["nightly", "eu"],
      error: "CUDA: Out of memory (8 GB)",
      errorGroup: "0123456789abcdef"
    } as const
    const matches = (text: string) => matchesSearch(parsed(text), job, 5_000)
    for (
      const text of [
        "",
        "status:failed status:timed_out endpoint:resize",
        "tag:nightly tag:eu",
        "error:\"out of memory\" error:cuda",
        "release:11 release:12",
        "worker:w-1",
        "error-group:0123456789abcdef error-group:other",
        "since:4s before:3999ms",
        "-status:completed -tag:us -error:disk -release:11 -batch:b -worker:w-2 -endpoint:other -error-group:other",
        "status:completed OR tag:eu",
        "tag:us OR status:failed -tag:us OR tag:us"
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
        "tag:EU",
        "since:3999ms",
        "before:4s",
        "-status:completed -status:failed",
        "-tag:us -tag:eu",
        "-error:MEMORY",
        "-release:12",
        "-worker:w-1",
        "-endpoint:resize",
        "-error-group:0123456789abcdef",
        "status:failed -tag:eu OR status:completed tag:eu"
      ]
    ) {
      expect(matches(text), text).toBe(false)
    }
  })

  it("leaves out the statuses in which an action changes no job", () => {
    expect(restrictedTo(parsed("tag:a"), "retry")?.any[0]?.status).toEqual(["FAILED", "TIMED_OUT"])
    expect(restrictedTo(parsed("-status:failed"), "retry")).toEqual(parsed("status:timed_out"))
    expect(restrictedTo(parsed("status:completed OR status:failed tag:a"), "retry")).toEqual(parsed("status:failed tag:a"))
    expect(restrictedTo(parsed("status:completed OR -status:failed -status:timed_out"), "retry")).toBeUndefined()
    expect(restrictedTo(parsed("status:failed status:waiting tag:a"), "cancel")).toEqual(parsed("status:waiting tag:a"))
    expect(restrictedTo(parsed("status:completed"), "retry")).toBeUndefined()
    expect(restrictedTo(parsed("status:completed"), "rerun")).toEqual(parsed("status:completed"))
  })

  it("resolves durations before now", () => {
    expect(searchRange(only("since:2h before:30m"), 10_000_000)).toEqual({ createdAfter: 2_800_000, createdBefore: 8_200_000 })
    expect(searchRange(only(""), 1)).toEqual({ createdAfter: undefined, createdBefore: undefined })
  })
})

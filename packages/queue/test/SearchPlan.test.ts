import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { EVERYTHING, type JobSearch, parseSearch } from "@stint/contract/JobSearch"
import { planOf, type SearchRange } from "../src/jobs/SearchPlan.ts"

const A = EndpointId.make("a")
const B = EndpointId.make("b")
const NOW = 10_000

const queryOf = (text: string): JobSearch => {
  const { problem, search } = parseSearch(text)
  if (search === undefined) throw new Error(`${text}: ${problem.message}`)
  return search
}

const rangeText = ({ createdAfter, createdBefore, status, tag }: SearchRange): string =>
  [
    status ?? "any",
    ...(tag === undefined ? [] : [`tag ${tag}`]),
    ...(createdAfter === undefined ? [] : [`from ${createdAfter}`]),
    ...(createdBefore === undefined ? [] : [`to ${createdBefore}`])
  ].join(" ")

/** The ranges of a query, such as `a FAILED tag x from 8000`. */
const plan = (text: string, endpoints = [A], createdBefore?: number) =>
  planOf({ endpoints, search: queryOf(text), now: NOW, createdBefore }).map(({ endpoint, range }) =>
    `${endpoint} ${rangeText(range)}`
  )

describe("the plan of a search", () => {
  it("is one range if the query has no status, and otherwise one for each status", () => {
    assert.deepStrictEqual(plan(""), ["a any"])
    assert.deepStrictEqual(plan("error:x -tag:y release:7", [A, B]), ["a any", "b any"])
    assert.deepStrictEqual(plan("status:failed status:running since:2s"), ["a IN_PROGRESS from 8000", "a FAILED from 8000"])
    assert.deepStrictEqual(plan("status:failed before:1s", [A], 9_500), ["a FAILED to 9000"])
    assert.deepStrictEqual(plan("error-group:x"), ["a FAILED", "a TIMED_OUT"])
  })

  it("reads the other statuses for a negated one, so that the completed jobs are not read to find the others", () => {
    assert.deepStrictEqual(plan("-status:completed"), ["a IN_QUEUE", "a IN_PROGRESS", "a FAILED", "a CANCELLED", "a TIMED_OUT"])
    assert.deepStrictEqual(plan("NOT status:completed NOT status:cancelled tag:x"), ["a any tag x"])
    assert.deepStrictEqual(plan("status:failed -status:failed"), [])
  })

  it("reads the range of each alternative, and none that another one contains", () => {
    assert.deepStrictEqual(plan("status:failed OR status:timed_out"), ["a FAILED", "a TIMED_OUT"])
    assert.deepStrictEqual(plan("tag:x status:failed OR tag:y"), ["a any tag x", "a any tag y"])
    assert.deepStrictEqual(plan("status:failed since:2s OR status:failed OR status:failed error:x"), ["a FAILED"])
    assert.deepStrictEqual(plan("tag:x OR error:y OR status:failed"), ["a any"])
    assert.deepStrictEqual(plan("status:failed since:2s OR status:failed before:5s"), ["a FAILED from 8000", "a FAILED to 5000"])
    assert.deepStrictEqual(plan("status:failed since:5s OR status:failed before:2s OR tag:x since:5s"), [
      "a FAILED",
      "a any tag x from 5000"
    ])
    const steps = Array.from({ length: 10 }, (_, index) => `tag:x since:${index + 2}s before:${index}s`).toReversed()
    assert.deepStrictEqual(plan(steps.join(" OR ")), ["a any tag x from -1000 to 10000"])
  })

  it("reads only the endpoints that an alternative covers, each with the ranges of its alternatives", () => {
    assert.deepStrictEqual(plan("endpoint:a status:failed OR endpoint:b", [A, B]), ["a FAILED", "b any"])
    assert.deepStrictEqual(plan("-endpoint:a status:failed", [A, B]), ["b FAILED"])
    assert.deepStrictEqual(plan("endpoint:a -endpoint:a", [A, B]), [])
  })

  it("reads one range for each endpoint, covering the times of all alternatives, when there would be too many ranges", () => {
    const endpoints = Array.from({ length: 100 }, (_, index) => EndpointId.make(`e-${index}`))
    const wide = plan("-status:completed since:2s OR tag:x since:3s OR tag:y since:4s", endpoints)
    assert.deepStrictEqual(wide, endpoints.map((endpoint) => `${endpoint} any from 6000`))
    const open = plan("-status:completed since:2s OR tag:x before:5s OR tag:y", endpoints)
    assert.deepStrictEqual(open, endpoints.map((endpoint) => `${endpoint} any`))
    assert.lengthOf(planOf({ endpoints, search: EVERYTHING, now: NOW }), 100)
  })
})

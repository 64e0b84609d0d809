/**
 * Tests job lists: `GET /v2/{endpoint}/requests`.
 */
import { expect } from "@effect/vitest"
import { JobPage } from "@stint/contract/JobList"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import type { TestEndpoint } from "../TestEndpoint.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const decodePage = expectJson(200, JobPage)

const list = (endpoint: TestEndpoint, query = "") =>
  Effect.flatMap(endpoint.call(endpoint.path(`requests${query === "" ? "" : `?${query}`}`)), decodePage)

/** Reads all pages of a list. */
const all = Effect.fnUntraced(function*(endpoint: TestEndpoint, query: string, from: string | null = "") {
  const ids: Array<string> = []
  let cursor = from
  while (cursor !== null) {
    const page: JobPage = yield* list(endpoint, `${query}${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`)
    ids.push(...page.requests.map(({ id }) => id))
    cursor = page.cursor
  }
  return ids
})

/** Registers the tests for job lists. */
export const jobLists = (it: ServerIt): void => {
  it.effect("requests: lists the endpoint's jobs, newest first, without payloads", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const first = yield* endpoint.run({ secret: "input" }, { tags: ["a", "b"], priority: 7 })
      yield* worker.next
      yield* worker.deliver(first.id, { error: "broken" })
      const second = yield* endpoint.run({ secret: "input" })
      const page = yield* list(endpoint)
      expect(page.cursor).toBeNull()
      expect(page.requests).toEqual([
        { id: second.id, status: "IN_QUEUE", createdAt: expect.any(Number), attempt: 0, priority: 0, tags: [] },
        {
          id: first.id,
          status: "FAILED",
          createdAt: expect.any(Number),
          startedAt: expect.any(Number),
          finishedAt: expect.any(Number),
          delayTime: expect.any(Number),
          executionTime: expect.any(Number),
          attempt: 1,
          workerId: worker.id,
          priority: 7,
          tags: ["a", "b"],
          error: "broken"
        }
      ])
      expect(JSON.stringify(page)).not.toContain("secret")
      expect((yield* list(yield* (yield* ServerTest).endpoint())).requests).toEqual([])
    }))

  it.effect("requests: filters by status, tag and time", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      // Jobs from the same millisecond are ordered by their ids.
      const one = yield* endpoint.run(1, { tags: ["red"] })
      yield* Effect.sleep(2)
      const two = yield* endpoint.run(2, { tags: ["red", "blue"] })
      yield* Effect.sleep(2)
      const three = yield* endpoint.run(3)
      yield* worker.next
      yield* worker.finish(one.id, "done")
      expect(yield* all(endpoint, "status=COMPLETED")).toEqual([one.id])
      expect(yield* all(endpoint, "status=IN_QUEUE")).toEqual([three.id, two.id])
      expect(yield* all(endpoint, "tag=red")).toEqual([two.id, one.id])
      expect(yield* all(endpoint, "tag=red&status=IN_QUEUE")).toEqual([two.id])
      expect(yield* all(endpoint, "tag=green")).toEqual([])
      const [newest] = (yield* list(endpoint, "limit=1")).requests
      const after = (newest?.createdAt ?? 0) + 1
      expect(yield* all(endpoint, `createdAfter=${after}`)).toEqual([])
      expect(yield* all(endpoint, `createdBefore=${after}`)).toEqual([three.id, two.id, one.id])
      expect(yield* all(endpoint, `createdBefore=${encodeURIComponent(new Date(after).toISOString())}`)).toHaveLength(3)
      expect(yield* all(endpoint, "createdBefore=2001-01-01T00:00:00Z")).toEqual([])
    }))

  it.effect("requests: pages have no gaps and no duplicates while jobs are submitted and end", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const submitted: Array<string> = []
      for (let n = 0; n < 11; n++) {
        submitted.unshift((yield* endpoint.run(n)).id)
        yield* Effect.sleep(2)
      }
      const first = yield* list(endpoint, "limit=4")
      expect(first.requests).toHaveLength(4)
      yield* endpoint.run("new")
      yield* endpoint.cancel(submitted[6] ?? "")
      const rest = yield* all(endpoint, "limit=3", first.cursor)
      expect([...first.requests.map(({ id }) => id), ...rest]).toEqual(submitted)
    }))

  it.effect("requests: returns 400 with the name of an invalid parameter", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      for (
        const [name, query] of [
          ["status", "status=DONE"],
          ["limit", "limit=0"],
          ["limit", "limit=201"],
          ["limit", "limit=many"],
          ["tag", "tag="],
          ["createdAfter", "createdAfter=yesterday"],
          ["createdBefore", "createdBefore=2026-01-01"],
          ["cursor", "cursor=zzz!"]
        ] as const
      ) {
        const problem = yield* Effect.flatMap(endpoint.call(endpoint.path(`requests?${query}`)), expectProblem(400))
        expect(problem.errors?.map(({ path }) => path), query).toEqual([[name]])
      }
      yield* Effect.flatMap(endpoint.call("/v2/nowhere/requests"), expectProblem(404))
    }))

  it.effect("requests: an error includes its traceback only when the endpoint shows tracebacks to callers", () =>
    Effect.gen(function*() {
      const blob = (length: number) =>
        JSON.stringify({ error_type: "E", error_message: "m", error_traceback: `at line 1 ${"x".repeat(length)}` })
      for (const length of [10, 2_000]) {
        for (const errorTraceback of ["full", "none"] as const) {
          const endpoint = yield* (yield* ServerTest).endpoint({ errorTraceback })
          const worker = yield* endpoint.worker()
          const { id } = yield* endpoint.run(1)
          yield* worker.next
          yield* worker.deliver(id, { error: blob(length) })
          const [listed] = (yield* list(endpoint)).requests
          expect(listed?.error).toContain("\"error_message\":\"m\"")
          expect(listed?.error?.includes("at line 1")).toBe(errorTraceback === "full")
        }
      }
    }))
}

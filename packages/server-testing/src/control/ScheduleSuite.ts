/**
 * Tests the operations on schedules.
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { JobReceipt } from "@stint/contract/Job"
import { Schedule } from "@stint/contract/Schedule"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const shown = expectJson(200, Schedule)
const created = expectJson(201, Schedule)
const listed = expectJson(200, Schema.Struct({ schedules: Schema.Array(Schedule) }))

/** Far in the future, so that the schedule does not fire during the test. */
const YEARLY = { cron: "0 3 29 2 *", timeZone: "Europe/Berlin" }

/** An endpoint, and the path of one of its schedules. */
const make = Effect.gen(function*() {
  const { call, endpoint } = yield* ServerTest
  const one = yield* endpoint()
  const path = `/api/v1/endpoints/${one.id}/schedules/nightly`
  const put = (json: object) => call(path, { method: "PUT", json })
  return { call, one, path, put, post: (action: string) => call(`${path}/${action}`, { method: "POST" }) }
})

/** Registers the tests for schedules. */
export const schedules = (it: ServerIt): void => {
  it.effect("creates, replaces, lists and deletes a schedule, with its next five firings", () =>
    Effect.gen(function*() {
      const { call, one, path, put } = yield* make
      const settings = {
        ...YEARLY,
        input: { report: [1, null] },
        priority: 3,
        tags: ["report"],
        webhook: "https://example.com/x"
      }
      const first = yield* Effect.flatMap(put(settings), created)
      expect(first).toMatchObject({
        endpoint: one.id,
        name: "nightly",
        spec: { ...settings, overlap: "skip", catchUp: "last", catchUpLimit: 10, jitterMs: 0 },
        paused: false,
        updatedBy: "the platform's API key",
        waiting: [],
        last: null
      })
      expect(first.next.map((time) => new Date(time).toISOString().slice(4))).toEqual(
        Array.from({ length: 5 }, () => "-02-29T02:00:00.000Z")
      )
      expect(yield* Effect.flatMap(call(path), shown)).toEqual(first)
      const second = yield* Effect.flatMap(put({ ...YEARLY, overlap: "queue" }), shown)
      expect(second.spec).toMatchObject({ input: {}, overlap: "queue" })
      expect(second.createdAt).toBe(first.createdAt)
      expect((yield* Effect.flatMap(call(`/api/v1/schedules?endpoint=${one.id}`), listed)).schedules).toEqual([second])
      expect((yield* Effect.flatMap(call("/api/v1/schedules?endpoint=none"), listed)).schedules).toEqual([])
      expect((yield* call(path, { method: "DELETE" })).status).toBe(204)
      const problem = yield* Effect.flatMap(call(path), expectProblem(404))
      expect(problem.error).toBe(`The endpoint "${one.id}" has no schedule "nightly".`)
    }))

  it.effect("pauses and resumes a schedule, and runs it now", () =>
    Effect.gen(function*() {
      const { call, one, path, post, put } = yield* make
      yield* put({ ...YEARLY, input: "now" })
      expect(yield* Effect.flatMap(post("pause"), shown)).toMatchObject({ paused: true, next: [] })
      expect(yield* Effect.flatMap(put({ ...YEARLY, input: "later" }), shown)).toMatchObject({ paused: true })
      const { id } = yield* Effect.flatMap(post("run-now"), expectJson(200, JobReceipt))
      const worker = yield* one.worker()
      expect((yield* worker.next).input).toBe("later")
      const { last, next } = yield* Effect.flatMap(post("resume"), shown)
      expect(next).toHaveLength(5)
      expect(last).toMatchObject({ trigger: "manual", outcome: "submitted", job: id })
      expect((yield* call(`/v2/${one.id}/requests?tag=schedule:nightly`)).text).toContain(id)
      yield* call(path, { method: "DELETE" })
    }))

  it.effect("fires a schedule at its time", () =>
    Effect.gen(function*() {
      const { one, put } = yield* make
      yield* Effect.flatMap(put({ at: Date.now() + 1_000, input: "once" }), created)
      const worker = yield* one.worker()
      expect((yield* worker.next).input).toBe("once")
    }))

  it.effect("rejects invalid settings with the invalid value", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint({ limits: { priority: 5 } })
      const path = `/api/v1/endpoints/${one.id}/schedules/nightly`
      for (
        const [settings, error] of [
          [{}, "cron"],
          [{ cron: "0 3 * * *", at: 1 }, "at"],
          [{ cron: "0 3 * *" }, "it has 4 fields"],
          [{ cron: "0 3 * * *", timeZone: "Mars/Olympus" }, "timeZone: is not a time zone"],
          [{ at: "2026-01-01T00:00:00Z" }, "2026-01-01T00:00:00.000Z has passed"],
          [{ cron: "0 3 * * *", overlap: "wait" }, "overlap"],
          [{ cron: "0 3 * * *", priority: 6 }, "priority"],
          [{ cron: "0 3 * * *", every: 5 }, "every"]
        ] as const
      ) {
        const problem = yield* Effect.flatMap(call(path, { method: "PUT", json: settings }), expectProblem(400))
        expect(JSON.stringify(problem), JSON.stringify(settings)).toContain(error)
      }
      const named = call(`/api/v1/endpoints/${one.id}/schedules/-x`, { method: "PUT", json: YEARLY })
      expect((yield* Effect.flatMap(named, expectProblem(400))).error).toContain("is not a valid name for a schedule")
      yield* Effect.flatMap(call("/api/v1/endpoints/none/schedules/x", { method: "PUT", json: YEARLY }), expectProblem(404))
    }))

  it.effect("keeps the schedules of a deleted endpoint, which can still be changed or deleted", () =>
    Effect.gen(function*() {
      const { call, one, path, post, put } = yield* make
      yield* put(YEARLY)
      yield* call(`/api/v1/endpoints/${one.id}`, { method: "DELETE" })
      yield* Effect.flatMap(call(path), shown)
      yield* Effect.flatMap(post("run-now"), expectProblem(404))
      yield* Effect.flatMap(put(YEARLY), expectProblem(404))
      expect((yield* call(path, { method: "DELETE" })).status).toBe(204)
    }))

  it.effect("requires the scope deploy", () =>
    Effect.gen(function*() {
      const { call, one, path, put } = yield* make
      yield* put(YEARLY)
      const json = { name: "caller", scopes: ["jobs", "worker"], endpoints: [one.id] }
      const { secret } = yield* Effect.flatMap(call("/api/v1/keys", { json }), expectJson(201, NewKey))
      const operations = [["GET", "/api/v1/schedules"], ["GET", path], ["PUT", path], ["DELETE", path], [
        "POST",
        `${path}/run-now`
      ]] as const
      for (const [method, url] of operations) {
        const body = method === "PUT" ? { json: YEARLY } : {}
        yield* Effect.flatMap(call(url, { method, authorization: `Bearer ${secret}`, ...body }), expectProblem(403))
      }
    }))
}

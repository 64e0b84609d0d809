/**
 * Tests usage reports (docs/operations/usage.md).
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { UsageReport } from "@stint/contract/UsageApi"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const decode = expectJson(200, UsageReport)
const created = expectJson(201, NewKey)

/** Registers the tests. */
export const usage = (it: ServerIt): void => {
  it.effect("usage: sums attempts by endpoint and by key, and keeps the attempts of a removed endpoint", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint({ retry: { onError: true, maxAttempts: 2 } })
      const worker = yield* one.worker("ann")
      yield* one.run(1)
      for (let attempt = 0; attempt < 2; attempt++) yield* worker.deliver((yield* worker.next).id, { error: "no" })
      yield* one.run(2)
      yield* worker.finish((yield* worker.next).id, "done")

      const report = (query: string) => Effect.flatMap(call(`/api/v1/usage?endpoint=${one.id}${query}`), decode)
      const all = yield* report("").pipe(
        Effect.repeat({ until: ({ total }) => total.attempts === 3, schedule: Schedule.spaced("20 millis") })
      )
      expect(all).toMatchObject({ by: "endpoint", step: "all", budgets: [] })
      expect(all.rows).toEqual([{ from: all.from, endpoint: one.id, ...all.total }])
      expect(all.total).not.toHaveProperty("cost")
      expect(all.total.workerSeconds).toBe(0)

      const byKey = yield* report("&by=key&step=hour")
      expect(byKey.rows.map(({ attempts, key }) => [attempts, key])).toEqual([[3, "platform"]])
      expect((byKey.rows[0]?.from ?? 1) % 3_600_000).toBe(0)
      expect((yield* report("&to=2020-01-01T00:00:00Z")).rows).toEqual([])

      yield* call(`/api/v1/endpoints/${one.id}`, { method: "DELETE" })
      expect((yield* report("&step=month")).total).toEqual(all.total)
    }))

  it.effect("usage: shows a limited key only its endpoints, and no other keys", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const mine = yield* endpoint()
      const other = yield* endpoint()
      const { key, secret: authorization } = yield* Effect.flatMap(
        call("/api/v1/keys", { json: { name: "viewer", scopes: ["jobs"], endpoints: [mine.id] } }),
        created
      )
      for (const one of [mine, other]) {
        const worker = yield* one.worker("ann")
        yield* one.run(1)
        yield* worker.finish((yield* worker.next).id, "done")
      }
      yield* call(`/v2/${mine.id}/run`, { authorization, json: { input: 1 } })
      const worker = yield* mine.worker("bob")
      yield* worker.finish((yield* worker.next).id, "done")

      const report = (query: string) => Effect.flatMap(call(`/api/v1/usage?${query}`, { authorization }), decode)
      const seen = yield* report("").pipe(
        Effect.repeat({ until: ({ total }) => total.attempts === 2, schedule: Schedule.spaced("20 millis") })
      )
      expect(seen.rows.map((row) => row.endpoint)).toEqual([mine.id])
      expect((yield* report(`endpoint=${other.id}`)).rows).toEqual([])
      expect((yield* report("by=key")).rows.map((row) => [row.key, row.attempts])).toEqual([[key.id, 1]])

      const { secret: workersOnly } = yield* Effect.flatMap(
        call("/api/v1/keys", { json: { name: "worker", scopes: ["worker"], endpoints: "all" } }),
        created
      )
      yield* Effect.flatMap(call("/api/v1/usage", { authorization: workersOnly }), expectProblem(403))
      yield* Effect.flatMap(call("/api/v1/usage", { authorization: "wrong" }), expectProblem(401))
      for (const query of ["by=worker", "step=minute", "from=yesterday", "to=-"]) {
        yield* Effect.flatMap(call(`/api/v1/usage?${query}`, { authorization }), expectProblem(400))
      }
    }))
}

/**
 * Tests the history of the endpoints on a platform that takes no samples (docs/spec/endpoints.md#control-api). `@stint/metrics` tests the samples.
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { EndpointHistory, History } from "@stint/contract/HistoryApi"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const decodeAll = expectJson(200, History)
const decodeOne = expectJson(200, EndpointHistory)
const created = expectJson(201, NewKey)

/** Registers the tests. */
export const histories = (it: ServerIt): void => {
  it.effect("history: says that there are no samples yet, and rejects times that it does not keep", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const { id } = yield* endpoint()
      expect(yield* Effect.flatMap(call("/api/v1/history"), decodeAll)).toEqual({ since: null, shared: false, endpoints: [] })
      const one = yield* Effect.flatMap(call(`/api/v1/history/${id}?minutes=60`), decodeOne)
      expect(one).toMatchObject({ id, since: null, at: [], waits: { p99: [] }, workers: { idle: [] } })
      for (const minutes of ["0", "61", "1.5", "many", ""]) {
        const { error } = yield* Effect.flatMap(call(`/api/v1/history/${id}?minutes=${minutes}`), expectProblem(400))
        expect(error).toContain("minutes")
      }
      yield* Effect.flatMap(call("/api/v1/history/no-such-endpoint"), expectProblem(404))
    }))

  it.effect("history: shows a key only its own endpoints", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const mine = yield* endpoint()
      const other = yield* endpoint()
      const { secret: authorization } = yield* Effect.flatMap(
        call("/api/v1/keys", { json: { name: "viewer", scopes: ["jobs:read"], endpoints: [mine.id] } }),
        created
      )
      yield* Effect.flatMap(call(`/api/v1/history/${mine.id}`, { authorization }), decodeOne)
      yield* Effect.flatMap(call(`/api/v1/history/${other.id}`, { authorization }), expectProblem(403))
      yield* Effect.flatMap(call("/api/v1/history", { authorization: null }), expectProblem(401))
    }))
}

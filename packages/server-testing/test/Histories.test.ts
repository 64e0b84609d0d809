import { expect, layer } from "@effect/vitest"
import { History } from "@stint/contract/HistoryApi"
import { EndpointHistories } from "@stint/server/EndpointHistories"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ServerTest, WireClient } from "../src/index.ts"

const ratesOf = (id: string) => ({
  id,
  arrivals: 1,
  ended: 2,
  waitP50: 3,
  waitP99: null,
  waiting: [4],
  endedJobs: [5],
  failedJobs: [0]
})

/** The endpoints of which the platform has samples. */
const sampled = new Array<string>()

const server = ServerTest.layer().pipe(
  Layer.provide(Layer.succeed(EndpointHistories, {
    since: () => 1_000,
    isShared: () => true,
    rates: () => sampled.map(ratesOf),
    of: () => expect.fail("no test reads the samples")
  }))
)

layer(server)("the rates of endpoints", (it) => {
  it.effect("are shown to a key only for its own endpoints", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest.ServerTest
      const mine = yield* endpoint()
      const other = yield* endpoint()
      sampled.push(mine.id, other.id)
      const made = yield* call("/api/v1/keys", { json: { name: "viewer", scopes: ["jobs:read"], endpoints: [mine.id] } })
      const { secret } = made.json as { readonly secret: string }
      const decode = WireClient.expectJson(200, History)
      const all = yield* Effect.flatMap(call("/api/v1/history"), decode)
      expect(all).toEqual({ since: 1_000, shared: true, endpoints: [ratesOf(mine.id), ratesOf(other.id)] })
      const seen = yield* Effect.flatMap(call("/api/v1/history", { authorization: secret }), decode)
      expect(seen.endpoints.map(({ id }) => id)).toEqual([mine.id])
    }))
})

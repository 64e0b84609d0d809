import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ADMIN_KEY, layer as serverLayer, ServerTest } from "../src/ServerTest.ts"
import { expectProblem } from "../src/WireClient.ts"

const LIMIT = 5

layer(serverLayer({ limits: { authFailures: LIMIT } }), { excludeTestServices: true })("the throttle of wrong keys", (it) => {
  it.effect("responds to wrong keys with 429 on every API once an address has sent too many, and still serves valid keys at once", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const wrong = (path: string, authorization = `stint_0123456789abcdef_${"x".repeat(43)}`) =>
        server.call(path, { authorization })
      const control = "/api/v1/endpoints"
      for (let at = 0; at < LIMIT; at += 1) expect((yield* wrong(control, `wrong ${at}`)).status).toBe(401)
      const paths = [
        control,
        endpoint.path("health"),
        endpoint.path("openai/v1/models"),
        worker.addresses.take,
        worker.addresses.ping
      ]
      for (const path of paths) {
        const answer = yield* wrong(path)
        expect(answer.status, path).toBe(429)
        expect(Number(answer.headers.get("retry-after")), path).toBeGreaterThanOrEqual(1)
        expect(answer.text).toContain("valid key")
      }
      const runSubmission = yield* server.call(endpoint.path("run"), { json: { input: 1 }, authorization: "wrong" })
      expect(runSubmission.status).toBe(429)
      // Another endpoint's worker key also counts as a wrong key.
      const other = yield* (yield* server.endpoint()).worker()
      yield* Effect.flatMap(worker.call(worker.addresses.ping, { authorization: other.key }), expectProblem(429))

      for (const path of [control, endpoint.path("health")]) {
        expect((yield* server.call(path, { authorization: ADMIN_KEY })).status, path).toBe(200)
      }
      expect((yield* worker.call(worker.addresses.ping)).status).toBe(200)
      // A request without a key does not count as a guess, and its error says how to send a key.
      yield* Effect.flatMap(server.call(control, { authorization: null }), expectProblem(401))
      const lines = (yield* server.logs).filter((line) => line.includes("wrong keys in a minute"))
      expect(lines).toHaveLength(1)
      for (const line of lines) expect(line).not.toContain("stint_0123456789abcdef")
    }))
})

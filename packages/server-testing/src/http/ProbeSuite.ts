/**
 * Tests the health probes.
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectProblem } from "../WireClient.ts"

/** Registers the tests for probes. */
export const probes = (it: ServerIt): void => {
  it.effect("/healthz and /readyz return 200 to GET and HEAD without a key, and return no data of the platform", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      yield* server.endpoint()
      for (const [path, status] of [["/healthz", "alive"], ["/readyz", "ready"]] as const) {
        for (const authorization of [null, "Bearer not-a-key-of-this-platform"]) {
          const answer = yield* server.call(path, { authorization })
          expect(answer).toMatchObject({ status: 200, text: JSON.stringify({ status }) })
        }
        expect(yield* server.call(path, { authorization: null, method: "HEAD" })).toMatchObject({ status: 200, text: "" })
        const problem = yield* Effect.flatMap(server.call(path, { method: "POST" }), expectProblem(405))
        expect(problem.hint).toContain("GET")
      }
    }))
}

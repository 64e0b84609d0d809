/**
 * Tests unknown paths and wrong methods.
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectProblem } from "../WireClient.ts"

/** Registers the tests for routes. */
export const routes = (it: ServerIt): void => {
  it.effect("returns 404 for an unknown path and lists the existing operations", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const paths = [
        "/v2",
        "/v2/x",
        "/v2/x/nope",
        "/v2/x/status",
        "/v1/x/run",
        "/api/v1",
        "/favicon.ico",
        "/v2/x/run/y",
        "/*"
      ]
      for (const path of paths) {
        for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
          const problem = yield* Effect.flatMap(server.call(path, { method }), expectProblem(404))
          expect(problem.type).toBe("/problems/route-not-found")
          expect(problem.hint).toContain("/v2/{endpoint}/run")
        }
        const onlyHead = yield* server.call(path, { method: "HEAD" })
        expect(onlyHead).toMatchObject({ status: 404, text: "" })
      }
    }))

  it.effect("returns 405 for a wrong method and lists the right ones", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const cases: ReadonlyArray<readonly [path: string, allow: string]> = [
        [endpoint.path("run"), "POST"],
        [endpoint.path("runsync?wait=1"), "POST"],
        [endpoint.path("status/x"), "GET, POST"],
        [endpoint.path("status-sync/x"), "GET, POST"],
        [endpoint.path("stream/x"), "GET, POST"],
        [endpoint.path("cancel/x"), "POST"],
        [endpoint.path("retry/x"), "POST"],
        [endpoint.path("purge-queue"), "POST"],
        [endpoint.path("health"), "GET"],
        [endpoint.path("requests"), "GET"],
        [endpoint.path("logs"), "GET"],
        [endpoint.path("events/x"), "GET"],
        [endpoint.path("events"), "POST"],
        [endpoint.path("steps/x"), "GET"],
        [endpoint.path("definitions/x"), "GET"],
        [endpoint.path("definitions"), "GET"],
        [endpoint.path("compare-definition"), "POST"],
        [endpoint.path("job-take/w"), "GET"],
        [endpoint.path("job-take/w&job_in_progress=0"), "GET"],
        [endpoint.path("job-take-batch/w"), "GET"],
        [endpoint.path("job-stop/w"), "GET"],
        [endpoint.path("job-done/w/x"), "POST"],
        [endpoint.path("job-done-batch/w"), "POST"],
        [endpoint.path("job-stream/w/x"), "POST"],
        [endpoint.path("ping/w"), "GET, POST"],
        [endpoint.path("run-journal/w"), "POST"],
        [endpoint.path("handler-schema/w"), "POST"],
        [endpoint.path("schema"), "GET"],
        ["/api/v1/endpoints", "GET, POST"],
        [`/api/v1/endpoints/${endpoint.id}`, "GET, PUT, DELETE"],
        [`/api/v1/endpoints/${endpoint.id}/worker-env`, "GET"],
        ["/", "GET"],
        ["/openapi.json", "GET"],
        ["/docs", "GET"]
      ]
      for (const [path, allow] of cases) {
        for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH"].filter((one) => !allow.split(", ").includes(one))) {
          const answer = yield* server.call(path, { method })
          const problem = yield* expectProblem(405)(answer)
          expect(answer.headers.get("allow"), `${method} ${path}`).toBe(allow)
          expect(problem.hint).toContain(allow)
        }
      }
    }))

  it.effect("HEAD returns the headers of GET without the body", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const answer = yield* server.call(endpoint.path("health"), { method: "HEAD" })
      expect(answer).toMatchObject({ status: 200, text: "" })
      expect((yield* server.call(endpoint.path("run"), { method: "HEAD" })).status).toBe(405)
    }))

  it.effect("returns 400 for malformed percent-encoding and says so", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      for (const path of ["/v2/%zz/health", "/v2/x/status/%", "/v2/x/status/%E0%A4%A", "/v2/x/status/%ff", "/%c0%af"]) {
        const problem = yield* Effect.flatMap(server.call(path), expectProblem(400))
        expect(problem.error).toContain("percent")
      }
      expect(yield* server.works).toBe(true)
    }))
}

/**
 * Tests every operation of the jobs API, batches, logs and the OpenAI route with a key of every scope
 * (docs/spec/authentication.md#scopes-of-the-jobs-api).
 */
import { expect } from "@effect/vitest"
import { isForEveryEndpoint, KeyScope, NewKey } from "@stint/contract/AccessKey"
import { Api } from "@stint/contract/Api"
import { JobsAuthorization } from "@stint/contract/Authorization"
import { OpenAiAuthorization } from "@stint/contract/OpenAiApi"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

/** The part of the jobs API that each operation belongs to, independent of the server's table. */
const EXPECTED: Readonly<Record<string, "jobs:submit" | "jobs:read" | "jobs:manage">> = {
  "POST run": "jobs:submit",
  "POST runsync": "jobs:submit",
  "POST batch": "jobs:submit",
  "PUT batch/:id": "jobs:submit",
  "POST batch/:id/requests": "jobs:submit",
  "DELETE batch/:id/requests/:request": "jobs:submit",
  "POST batch/:id/finalize": "jobs:submit",
  "POST openai/v1/*": "jobs:submit",
  "GET openai/v1/*": "jobs:submit",
  "DELETE openai/v1/*": "jobs:submit",
  "POST events": "jobs:submit",
  "GET steps/:id": "jobs:read",
  "GET definitions/:hash": "jobs:read",
  "GET definitions": "jobs:read",
  "POST compare-definition": "jobs:read",
  "GET status/:id": "jobs:read",
  "POST status/:id": "jobs:read",
  "GET status-sync/:id": "jobs:read",
  "POST status-sync/:id": "jobs:read",
  "GET stream/:id": "jobs:read",
  "POST stream/:id": "jobs:read",
  "GET events/:id": "jobs:read",
  "GET logs/:id": "jobs:read",
  "GET logs": "jobs:read",
  "GET requests": "jobs:read",
  "GET health": "jobs:read",
  "GET schema": "jobs:submit",
  "GET batch": "jobs:read",
  "GET batch/:id": "jobs:read",
  "GET batch/:id/requests": "jobs:read",
  "POST cancel/:id": "jobs:manage",
  "POST retry/:id": "jobs:manage",
  "POST purge-queue": "jobs:manage",
  "POST batch/:id/cancel": "jobs:manage"
}

const GUARDS: ReadonlySet<string> = new Set([JobsAuthorization.key, OpenAiAuthorization.key])

/** `POST status/:id`, for each operation of the contract that callers' guards protect. */
const operations: ReadonlyArray<string> = Object.values(Api.groups).flatMap((group) =>
  Object.values(group.endpoints).flatMap((endpoint) =>
    [...endpoint.middlewares].some(({ key }) => GUARDS.has(key))
      ? [`${endpoint.method} ${endpoint.path.replace(/^\/v2\/:endpoint\//, "")}`]
      : []
  )
)

const created = expectJson(201, NewKey)

/** Registers the tests. */
export const scopes = (it: ServerIt): void => {
  it.effect("each operation accepts the scopes that the documentation lists for it, and returns 403 for every other scope", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      expect([...operations].sort()).toEqual(Object.keys(EXPECTED).sort())
      const secrets = yield* Effect.forEach(KeyScope.literals, (scope) =>
        Effect.map(
          Effect.flatMap(
            call("/api/v1/keys", {
              json: { name: scope, scopes: [scope], endpoints: isForEveryEndpoint([scope]) ? "all" : [one.id] }
            }),
            created
          ),
          ({ secret }) => ({ scope, secret })
        ))
      yield* Effect.forEach(operations, (operation) =>
        Effect.forEach(secrets, ({ scope, secret }) =>
          Effect.gen(function*() {
            const [method = "", path = ""] = operation.split(" ")
            const wanted = EXPECTED[operation]
            const isAllowed = scope === "admin" || scope === "jobs" || scope === wanted
            // A body that is not JSON and ids that do not exist: an admitted request changes nothing and returns at once.
            const answer = yield* call(one.path(path.replace("*", "").replaceAll(/:\w+/g, "x")), {
              method,
              authorization: secret,
              ...(method === "GET" || method === "DELETE" ? {} : { body: "{" })
            })
            const context = `${operation} with the scope ${scope}: ${answer.text}`
            if (isAllowed) return expect([401, 403], context).not.toContain(answer.status)
            expect(answer.status, context).toBe(403)
            // The OpenAI route has its own format for errors.
            if (path.startsWith("openai")) return
            const problem = yield* expectProblem(403)(answer)
            expect(problem.error, context).toContain(`"${scope}"`)
            expect(problem.error, context).toContain(`requires the scope "${scope.startsWith("jobs:") ? wanted : "jobs"}"`)
          }), { concurrency: 8 }), { concurrency: 4, discard: true })
    }))

  it.effect("a key with two of the three scopes can do what either scope permits, and nothing else", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const { secret } = yield* Effect.flatMap(
        call("/api/v1/keys", { json: { name: "both", scopes: ["jobs:submit", "jobs:read"], endpoints: [one.id] } }),
        created
      )
      const as = (rest: string, method: string, json?: unknown) =>
        Effect.map(
          call(one.path(rest), { method, authorization: secret, ...(json === undefined ? {} : { json }) }),
          ({ status }) => status
        )
      expect(yield* as("run", "POST", { input: 1 })).toBe(200)
      expect(yield* as("health", "GET")).toBe(200)
      expect(yield* as("purge-queue", "POST")).toBe(403)
      expect((yield* one.health).jobs.inQueue).toBe(1)
    }))
}

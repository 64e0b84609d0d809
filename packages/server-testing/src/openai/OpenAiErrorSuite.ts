/**
 * Tests errors under the OpenAI route (docs/spec/openai-route.md#errors): all of them have OpenAI's shape and a matching status.
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { head, isWhole, statusOf } from "../RawSocket.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import type { Call } from "../WireClient.ts"
import { ask, chat, expectError } from "./OpenAiCaller.ts"

/** Registers the tests for errors. */
export const openAiErrors = (it: ServerIt): void => {
  it.effect("every rejection has OpenAI's shape, with its status, its code and an id", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const path = (rest: string) => endpoint.path(`openai/${rest}`)
      const completions = path("v1/chat/completions")
      const cases: ReadonlyArray<readonly [path: string, call: Call, status: number, type: string, code: string | null]> = [
        [completions, { ...chat(), authorization: "Bearer wrong" }, 401, "invalid_request_error", "invalid_api_key"],
        [completions, { ...chat(), authorization: null }, 401, "invalid_request_error", "invalid_api_key"],
        [completions, { ...chat(), authorization: `Bearer ${worker.key}` }, 403, "permission_error", "forbidden"],
        ["/v2/nowhere/openai/v1/models", {}, 404, "invalid_request_error", "endpoint_not_found"],
        [path("v1"), {}, 404, "invalid_request_error", "route_not_found"],
        [path("v1/"), {}, 404, "invalid_request_error", "route_not_found"],
        [path(""), {}, 404, "invalid_request_error", "route_not_found"],
        [path("v2/models"), {}, 404, "invalid_request_error", "route_not_found"],
        [path("v1/%zz"), {}, 400, "invalid_request_error", "invalid_request"],
        [completions, { method: "PUT" }, 405, "invalid_request_error", "method_not_allowed"],
        [completions, { body: "{\"model\":" }, 400, "invalid_request_error", "invalid_request"],
        [completions, { body: "[]" }, 400, "invalid_request_error", "invalid_request"],
        [completions, { body: "\"text\"" }, 400, "invalid_request_error", "invalid_request"],
        [completions, { body: "x".repeat(20 * 1024 * 1024 + 1) }, 413, "invalid_request_error", "payload_too_large"],
        [
          path("v1/audio/transcriptions"),
          { body: "--x--", headers: { "content-type": "multipart/form-data; boundary=x" } },
          415,
          "invalid_request_error",
          "unsupported_media_type"
        ]
      ]
      for (const [path, call, status, type, code] of cases) {
        const answer = yield* server.call(path, call)
        const error = yield* expectError(status)(answer)
        expect([error.type, error.code, error.param], path).toEqual([type, code, null])
        expect(error.message.length, path).toBeGreaterThan(20)
        expect(answer.headers.get("content-type"), path).toBe("application/json")
        expect(answer.headers.get("x-request-id"), path).toMatch(/^req_/)
        expect(answer.headers.has("x-job-id"), path).toBe(false)
      }
      const stream = yield* Effect.flatMap(ask(endpoint, "chat/completions", chat({ stream: "yes" })), expectError(400))
      expect(stream.param).toBe("stream")
      const key = { ...chat(), headers: { "idempotency-key": "\u00e4" } }
      expect((yield* Effect.flatMap(ask(endpoint, "chat/completions", key), expectError(400))).param).toBe("Idempotency-Key")
      expect((yield* server.call(completions, { method: "PUT" })).headers.get("allow")).toBe("POST, GET, DELETE")
      // Check that none of the requests created a job.
      expect((yield* endpoint.health).jobs.inQueue).toBe(0)
    }))

  it.effect("HEAD runs no job", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const answer = yield* ask(endpoint, "models", { method: "HEAD" })
      expect([answer.status, answer.text]).toEqual([405, ""])
      expect((yield* endpoint.health).jobs.inQueue).toBe(0)
    }))

  it.effect("on the raw wire: an error has a content-length, and the connection stays open", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const socket = yield* server.connect
      const request = head("GET /v2/x/openai/v1/models", { authorization: "Bearer wrong" })
      yield* socket.write(request)
      const first = yield* socket.until(isWhole)
      expect(statusOf(first)).toBe(401)
      expect(first.toLowerCase()).toContain("www-authenticate: bearer")
      yield* socket.write(request)
      yield* socket.until((received) => received.split("HTTP/1.1 401 ").length === 3)
    }))

  it.effect("returns a handler's error object as an object, in any notation, with its own status or the status that matches its type", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const worker = yield* one.worker()
      const error = (rest: Readonly<Record<string, unknown>>) => ({ type: "worker_error", param: null, code: null, ...rest })
      const cases: ReadonlyArray<readonly [error: string, status: number, expected: unknown]> = [
        ["out of memory", 500, error({ message: "out of memory" })],
        [
          JSON.stringify({ message: "too long", type: "BadRequestError", param: "messages", code: 400 }),
          400,
          { message: "too long", type: "BadRequestError", param: "messages", code: 400 }
        ],
        [
          "{'object': 'error', 'message': \"can't be \\\"that\\\" \\u00e4\", 'type': 'NotFoundError', 'param': None, 'code': 404}",
          404,
          { message: "can't be \"that\" \u00e4", type: "NotFoundError", param: null, code: 404 }
        ],
        [
          JSON.stringify({ error: { message: "no such model", type: "invalid_request_error", code: "model_not_found" } }),
          400,
          { message: "no such model", type: "invalid_request_error", param: null, code: "model_not_found" }
        ],
        [
          JSON.stringify({ message: "too slow", type: "timeout_error" }),
          504,
          error({ message: "too slow", type: "timeout_error" })
        ],
        [JSON.stringify({ message: "slow down", status: 429 }), 429, error({ message: "slow down", status: 429 })],
        [JSON.stringify({ message: "slow down", status_code: "429" }), 429, error({ message: "slow down", status_code: "429" })],
        [JSON.stringify({ message: "odd", code: 7 }), 500, error({ message: "odd", code: 7 })],
        [
          JSON.stringify({ error_type: "ValueError", error_message: "bad temperature", error_traceback: "at secret.py" }),
          500,
          error({ message: "bad temperature" })
        ],
        [
          JSON.stringify({ error_type: "E", error_message: JSON.stringify({ error: { message: "who?", code: 401 } }) }),
          401,
          error({ message: "who?", code: 401 })
        ],
        [
          JSON.stringify({ error_type: "Error", error_message: JSON.stringify({ message: "no", type: "not_found_error" }) }),
          404,
          error({ message: "no", type: "not_found_error" })
        ],
        ["handler: broken \ntraceback: secret.py", 500, error({ message: "handler: broken" })],
        ["{'message': <object at 0x7f>}", 500, error({ message: "{'message': <object at 0x7f>}" })]
      ]
      for (const [text, status, expected] of cases) {
        const answering = yield* Effect.forkChild(ask(one, "chat/completions", chat()))
        const { id } = yield* worker.next
        yield* worker.deliver(id, { error: text })
        const answer = yield* Fiber.join(answering)
        expect([answer.status, answer.json], text).toEqual([status, { error: expected }])
        expect(answer.headers.get("x-job-id")).toBe(id)
      }
    }))

  it.effect("treats an error that a handler returns as an error, but not an OpenAI object with a member `error`", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const worker = yield* one.worker()
      const inner = { message: "no such model", type: "not_found_error", param: null, code: "model_not_found" }
      const failed = { id: "resp_1", object: "response", status: "failed", error: { code: "server_error", message: "broken" } }
      for (
        const [output, status, expected] of [
          [[{ error: inner }], 404, { error: inner }],
          [JSON.stringify({ error: inner }), 404, { error: inner }],
          [failed, 200, failed]
        ] as const
      ) {
        const answering = yield* Effect.forkChild(ask(one, "chat/completions", chat()))
        const { id } = yield* worker.next
        yield* worker.finish(id, output)
        const answer = yield* Fiber.join(answering)
        expect([answer.status, answer.json]).toEqual([status, expected])
      }
    }))

  it.effect("tells clients not to retry a job without attempts left, but not when the handler sets the status", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const worker = yield* one.worker()
      for (
        const [error, retry] of [["out of memory", "false"], [JSON.stringify({ message: "full", code: 503 }), null]] as const
      ) {
        const answering = yield* Effect.forkChild(ask(one, "chat/completions", chat()))
        const { id } = yield* worker.next
        yield* worker.deliver(id, { error })
        expect((yield* Fiber.join(answering)).headers.get("x-should-retry")).toBe(retry)
      }
    }))

  it.effect("returns 499 for a cancelled job", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const worker = yield* one.worker()
      const answering = yield* Effect.forkChild(ask(one, "chat/completions", chat()))
      const { id } = yield* worker.next
      yield* one.cancel(id)
      const error = yield* Effect.flatMap(Fiber.join(answering), expectError(499))
      expect(error).toMatchObject({ code: "cancelled", message: expect.stringContaining(id) })
    }))
}

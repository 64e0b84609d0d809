/**
 * Tests streams on the OpenAI route (docs/spec/openai-route.md#responses-with-a-stream): what is forwarded, and how a stream ends.
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Schema from "effect/Schema"
import { bodyOf, head } from "../RawSocket.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, ServerTest } from "../ServerTest.ts"
import type { Settings } from "../TestEndpoint.ts"
import { chat, dataOf, open } from "./OpenAiCaller.ts"

/** Requests a stream and waits until its job has started and sent its first chunks. */
const begin = Effect.fnUntraced(function*(first: ReadonlyArray<Schema.Json>, settings: Settings = {}) {
  const server = yield* ServerTest
  const endpoint = yield* server.endpoint(settings)
  const worker = yield* endpoint.worker()
  const opening = yield* Effect.forkChild(open(server, endpoint, chat({ stream: true }).json))
  const { id } = yield* worker.next
  yield* worker.stream(id, first)
  return { endpoint, worker, id, opening }
})

const part = (content: string) => ({ object: "chat.completion.chunk", choices: [{ index: 0, delta: { content } }] })

/** The handler's output without comments, because on a slow machine there may be comments between two events. */
const withoutComments = (text: string): string => text.replaceAll(": alive\n\n", "")

const errorOf = (text: string): unknown => JSON.parse(dataOf(text).at(-1) ?? "null")

/** Registers the tests for streams. */
export const openAiStreams = (it: ServerIt): void => {
  it.effect("forwards text chunks byte for byte, split or joined as they arrived, and adds nothing", () =>
    Effect.gen(function*() {
      const texts = [
        "data: {\"n\":1}\n\nda",
        "ta: {\"n\":",
        "2}",
        "\n\n: a comment\r\n\r\nevent: x\ndata: \u{1F600}\n\n",
        "",
        "data: {\"n\":3}\n\n"
      ]
      const { endpoint, id, opening, worker } = yield* begin(texts)
      yield* worker.deliver(id, { output: texts }, "&isStream=true")
      const reading = yield* Fiber.join(opening)
      expect(reading.status).toBe(200)
      expect(reading.headers.get("content-type")).toMatch(/^text\/event-stream/)
      expect(reading.headers.get("cache-control")).toBe("no-cache")
      expect([reading.headers.get("x-job-id"), reading.headers.get("x-request-id")]).toEqual([id, id])
      expect(withoutComments(yield* reading.whole)).toBe(texts.join(""))
      // Reading the stream did not drain chunks from /stream.
      expect((yield* endpoint.stream(id)).stream.map(({ output }) => output)).toEqual(texts)
    }))

  it.effect("sends object chunks as data lines, with [DONE] at the end unless the handler sent it", () =>
    Effect.gen(function*() {
      for (const [last, ends] of [[[], 1], [["data: [DONE]\n\n"], 1], [["data: [DO", "NE]\n\n"], 1]] as const) {
        const { id, opening, worker } = yield* begin([part("Hel"), part("lo"), ...last])
        yield* worker.deliver(id, { output: [] }, "&isStream=true")
        const text = withoutComments(yield* (yield* Fiber.join(opening)).whole)
        expect(text.startsWith(`data: ${JSON.stringify(part("Hel"))}\n\ndata: ${JSON.stringify(part("lo"))}\n\n`)).toBe(true)
        expect(text.endsWith("data: [DONE]\n\n")).toBe(true)
        expect(text.split("[DONE]").length - 1).toBe(ends)
      }
    }))

  it.effect("sends a text chunk of JSON without `data:` as a data line", () =>
    Effect.gen(function*() {
      const { id, opening, worker } = yield* begin([JSON.stringify(part("a")), `${JSON.stringify(part("b"))}\n`])
      yield* worker.deliver(id, { output: [] }, "&isStream=true")
      const text = yield* (yield* Fiber.join(opening)).whole
      expect(dataOf(text)).toEqual([JSON.stringify(part("a")), JSON.stringify(part("b")), "[DONE]"])
    }))

  it.effect("sends each chunk when it arrives, and comments while no chunk arrives", () =>
    Effect.gen(function*() {
      const { id, opening, worker } = yield* begin([part("a")])
      const reading = yield* Fiber.join(opening)
      yield* reading.until((text) => text.includes("\"a\"") && text.includes("\n\n: alive\n\n"))
      yield* worker.stream(id, [part("b")])
      yield* reading.until((text) => text.includes("\"b\""))
      yield* worker.finish(id, [])
      expect(dataOf(yield* reading.whole)).toEqual([JSON.stringify(part("a")), JSON.stringify(part("b")), "[DONE]"])
    }))

  it.effect("progress sends nothing to the client and does not suppress comments", () =>
    Effect.gen(function*() {
      const { id, opening, worker } = yield* begin([part("a")])
      const reading = yield* Fiber.join(opening)
      // Progress is sent more often than comments, with a different value each time.
      let percent = 0
      const reports = { enough: false }
      const reporting = yield* Effect.forkChild(Effect.gen(function*() {
        while (!reports.enough) {
          yield* worker.progress(id, { percent: percent++ })
          yield* Effect.sleep(20)
        }
      }))
      yield* reading.until((text) => text.split(": alive").length > 2)
      // End the connection normally: if it broke shortly after a job was sent on it, the job would return to the queue.
      reports.enough = true
      yield* Fiber.join(reporting)
      yield* worker.finish(id, [])
      expect(dataOf(yield* reading.whole)).toEqual([JSON.stringify(part("a")), "[DONE]"])
    }))

  it.effect("sends no comment inside a line that the handler has not completed", () =>
    Effect.gen(function*() {
      const { id, opening, worker } = yield* begin(["data: {\"n\"", ":1}\n"])
      const reading = yield* Fiber.join(opening)
      yield* reading.until((text) => text.includes("data: {\"n\":1}\n: alive\n"))
      yield* worker.stream(id, ["\ndata: {\"open"])
      const before = yield* reading.until((text) => text.endsWith("data: {\"open"))
      // A second stream, in which comments are allowed, shows when a comment would have been sent.
      const clock = yield* Effect.flatMap(Effect.flatMap(begin([part("a")]), ({ opening }) => Fiber.join(opening)), ({ until }) =>
        until((text) => text.split(": alive").length > 3))
      expect(clock).toContain("alive")
      yield* worker.stream(id, ["\":1}\n\n"])
      yield* worker.finish(id, [])
      expect(yield* reading.whole).toBe(`${before}":1}\n\n`)
    }))

  it.effect("a handler that returns a value sends it as one event", () =>
    Effect.gen(function*() {
      for (const output of [part("whole"), [part("whole")], JSON.stringify(part("whole"))]) {
        const { id, opening, worker } = yield* begin([])
        yield* worker.finish(id, output)
        const text = yield* (yield* Fiber.join(opening)).whole
        expect(text).toBe(`data: ${JSON.stringify(part("whole"))}\n\ndata: [DONE]\n\n`)
      }
    }))

  it.effect("a failure before the first chunk is returned as an error status, just like without a stream", () =>
    Effect.gen(function*() {
      const { id, opening, worker } = yield* begin([])
      const error = { message: "max_tokens is too large", type: "BadRequestError", param: "max_tokens", code: 400 }
      yield* worker.deliver(id, { error: JSON.stringify(error) })
      const reading = yield* Fiber.join(opening)
      expect([reading.status, reading.headers.get("content-type")]).toEqual([400, "application/json"])
      expect(JSON.parse(yield* reading.whole)).toEqual({ error })
      expect(reading.headers.get("x-job-id")).toBe(id)
    }))

  it.effect("a failure after the first chunk is sent as an event, and the stream ends without [DONE]", () =>
    Effect.gen(function*() {
      const { id, opening, worker } = yield* begin([part("a"), "data: {\"cut"])
      yield* worker.deliver(id, { error: "{'message': \"it's over\", 'type': 'server_error', 'code': None}" }, "&isStream=true")
      const text = yield* (yield* Fiber.join(opening)).whole
      expect(errorOf(text)).toEqual({ error: { message: "it's over", type: "server_error", param: null, code: null } })
      expect(text).toContain("data: {\"cut\n\ndata: {\"error\"")
      expect(text).not.toContain("[DONE]")
    }))

  it.effect("an attempt that is lost after its first chunk ends the stream with an error, without a retry", () =>
    Effect.gen(function*() {
      const { endpoint, id, opening, worker } = yield* begin([part("a")], { maxAttempts: 3 })
      const reading = yield* Fiber.join(opening)
      yield* reading.until((text) => text.includes("\"a\""))
      yield* Effect.forkChild(worker.take(false))
      const text = yield* reading.whole
      expect(dataOf(text)[0]).toBe(JSON.stringify(part("a")))
      expect(errorOf(text)).toMatchObject({
        error: { type: "server_error", code: "attempt_lost", message: expect.stringContaining(id) }
      })
      expect(text).not.toContain("[DONE]")
      yield* endpoint.until(id, ({ status }) => status === "CANCELLED")
    }))

  it.effect("an attempt that is lost before its first chunk is retried without the client noticing", () =>
    Effect.gen(function*() {
      const { id, opening, worker } = yield* begin([], { maxAttempts: 3 })
      expect(yield* worker.take(false)).toMatchObject({ id, attempt: 2 })
      yield* worker.stream(id, [part("a")])
      yield* worker.finish(id, [])
      expect(dataOf(yield* (yield* Fiber.join(opening)).whole)).toEqual([JSON.stringify(part("a")), "[DONE]"])
    }))

  it.effect("a client that disconnects stops the job", () =>
    Effect.gen(function*() {
      const { endpoint, id, opening, worker } = yield* begin([part("a")])
      const reading = yield* Fiber.join(opening)
      yield* reading.until((text) => text.includes("\"a\""))
      yield* reading.hangUp
      yield* endpoint.until(id, ({ status }) => status === "CANCELLED")
      expect(yield* worker.stops).toEqual([id])
    }))

  it.effect("on the raw wire: the response is a chunked HTTP/1.1 response that any client can read to its end", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const socket = yield* server.connect
      const body = JSON.stringify(chat({ stream: true }).json)
      yield* socket.write(
        head(`POST ${endpoint.path("openai/v1/chat/completions")}`, {
          authorization: `Bearer ${ADMIN_KEY}`,
          "content-length": String(body.length)
        }) + body
      )
      const { id } = yield* worker.next
      yield* worker.stream(id, ["data: {\"n\":1}\n\n"])
      yield* worker.deliver(id, { output: [] }, "&isStream=true")
      const received = yield* socket.until((received) => received.endsWith("0\r\n\r\n"))
      expect(received.slice(0, received.indexOf("\r\n\r\n")).toLowerCase().split("\r\n")).toEqual(expect.arrayContaining([
        "http/1.1 200 ok",
        "transfer-encoding: chunked",
        "content-type: text/event-stream",
        `x-job-id: ${id}`,
        `x-request-id: ${id}`
      ]))
      expect(bodyOf(received).replaceAll("9\r\n: alive\n\n\r\n", "")).toBe("f\r\ndata: {\"n\":1}\n\n\r\n0\r\n\r\n")
    }))
}

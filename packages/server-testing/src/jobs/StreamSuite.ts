/**
 * Tests streams (docs/spec/streaming.md#draining-chunks, docs/spec/streaming.md#end-of-a-stream,
 * docs/spec/worker-protocol.md#delivering-chunks): reading drains the chunks, and the end is reported together with the last chunk or
 * after it.
 */
import { expect } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ServerIt } from "../ServerIt.ts"
import { LIMITS, ServerTest } from "../ServerTest.ts"
import { expectProblem } from "../WireClient.ts"
import { SDK_LABELS } from "../WireWorker.ts"

const outputs = (values: Iterable<unknown>) => Array.from(values, (output) => ({ output }))

/** Registers the tests for streams. */
export const streams = (it: ServerIt): void => {
  it.effect("`stream` is always an array, and is empty after the wait while the job is in the queue", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { id } = yield* endpoint.run({})
      expect(yield* endpoint.stream(id, 30)).toEqual({ id, status: "IN_QUEUE", stream: [] })
      const posted = yield* endpoint.call(endpoint.path(`stream/${id}?wait=30`), { json: {} })
      expect(posted.json).toEqual({ id, status: "IN_QUEUE", stream: [] })
    }))

  it.effect("returns each chunk once, in order, exactly as it was sent", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.stream(id, ["a", "b"])
      expect(yield* endpoint.stream(id)).toMatchObject({ status: "IN_PROGRESS", stream: outputs(["a", "b"]) })
      expect((yield* endpoint.stream(id, 30)).stream).toEqual([])
      yield* worker.stream(id, ["c"])
      expect((yield* endpoint.stream(id)).stream).toEqual(outputs(["c"]))
    }))

  it.effect("sends the first chunk to a waiting reader at once", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      const reading = yield* Effect.forkChild(endpoint.stream(id, 10_000))
      yield* worker.next
      yield* worker.stream(id, [{ n: 1 }])
      expect(yield* Fiber.join(reading)).toMatchObject({ status: "IN_PROGRESS", stream: outputs([{ n: 1 }]) })
    }))

  it.effect("notifies a waiting reader of the end at once", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const reading = yield* Effect.forkChild(endpoint.stream(id, 10_000))
      yield* worker.deliver(id, { output: [] }, "&isStream=true")
      expect(yield* Fiber.join(reading)).toMatchObject({ status: "COMPLETED", stream: [], output: [] })
    }))

  it.effect("reports the end with the last chunk, and with an empty array afterwards", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.stream(id, [1, 2, 3])
      yield* worker.deliver(id, { output: [1, 2, 3] }, "&isStream=true")
      expect(yield* endpoint.stream(id)).toMatchObject({ status: "COMPLETED", stream: outputs([1, 2, 3]), output: [1, 2, 3] })
      for (let i = 0; i < 2; i++) {
        expect(yield* endpoint.stream(id)).toMatchObject({ status: "COMPLETED", stream: [], output: [1, 2, 3] })
      }
      // Reading the stream has not changed the result.
      expect((yield* endpoint.status(id)).output).toEqual([1, 2, 3])
    }))

  it.effect("pages a large backlog and reports the end only on the last page", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const numbers = Array.from({ length: 1_100 }, (_, i) => i)
      yield* worker.stream(id, numbers)
      yield* worker.deliver(id, { output: "all", error: "in the end" }, "&isStream=true")
      const pages = yield* endpoint.streamToEnd(id)
      expect(pages.flatMap((page) => page.stream)).toEqual(outputs(numbers))
      expect(pages.length).toBeGreaterThan(1)
      for (const page of pages.slice(0, -1)) {
        expect(Object.keys(page).sort()).toEqual(["delayTime", "id", "status", "stream", "workerId"])
        expect(page.status).toBe("IN_PROGRESS")
      }
      expect(pages.at(-1)).toMatchObject({ status: "FAILED", output: "all", error: "in the end" })
    }))

  it.effect("pages a backlog of large chunks by the size of one response", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const large = "x".repeat(1_000_000)
      yield* worker.stream(id, Array.from({ length: 40 }, () => large))
      yield* worker.finish(id, "done")
      const pages = yield* endpoint.streamToEnd(id)
      for (const page of pages) expect(page.stream.length).toBeLessThanOrEqual(20)
      expect(pages.slice(0, -1).every((page) => page.status === "IN_PROGRESS")).toBe(true)
      const chunks = pages.flatMap((page) => page.stream)
      expect(chunks).toHaveLength(40)
      expect(chunks.every((chunk) => chunk.output === large)).toBe(true)
    }))

  it.effect("delivers each chunk to exactly one of two readers", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const readers = yield* Effect.forkChild(
        Effect.all([endpoint.streamToEnd(id), endpoint.streamToEnd(id), endpoint.streamToEnd(id)], { concurrency: 3 })
      )
      const numbers = Array.from({ length: 60 }, (_, i) => i)
      const [duration] = yield* Effect.timed(worker.stream(id, numbers))
      // Readers that receive no chunk wait again and do not delay others.
      expect(Duration.toMillis(duration)).toBeLessThan(60 * LIMITS.streamWaitMs / 4)
      yield* worker.finish(id, [])
      const seen = (yield* Fiber.join(readers)).flat().flatMap((page) => page.stream).map((chunk) => chunk.output)
      expect(seen.toSorted((a, b) => Number(a) - Number(b))).toEqual(numbers)
    }))

  it.effect("returns chunks streamed before a cancel", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.stream(id, ["before"])
      yield* endpoint.cancel(id)
      expect(yield* endpoint.stream(id)).toMatchObject({ status: "CANCELLED", stream: outputs(["before"]) })
      expect(yield* endpoint.stream(id)).toMatchObject({ status: "CANCELLED", stream: [] })
    }))

  it.effect("a chunk is any JSON and is returned exactly as it was sent, with any content type", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const chunks = ["null", "{}", "\"漢字 😀\"", "[18446744073709551615, 1.0]", "{\"error\":\"in a chunk\"}"]
      for (const chunk of chunks) {
        yield* worker.call(`${worker.addresses.stream(id)}&isStream=false`, { body: `{"output":${chunk}}`, headers: SDK_LABELS })
      }
      const { text } = yield* endpoint.call(endpoint.path(`stream/${id}`))
      expect(text).toContain(`"stream":[${chunks.map((chunk) => `{"output":${chunk}}`).join(",")}]`)
    }))

  it.effect("ignores a chunk that arrives after the end, and rejects a chunk from a worker without the lease", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const otherWorker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* Effect.flatMap(otherWorker.call(otherWorker.addresses.stream(id), { json: { output: "x" } }), expectProblem(409))
      yield* worker.finish(id, "done")
      yield* worker.stream(id, ["late"])
      expect(yield* endpoint.stream(id)).toMatchObject({ status: "COMPLETED", stream: [] })
    }))

  it.effect("rejects a numbered chunk over the limit with the limit and a hint, and the job continues", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const answer = yield* worker.call(`${worker.addresses.stream(id)}&chunk=1`, { json: { output: "x".repeat(1024 * 1024) } })
      expect(yield* expectProblem(413)(answer)).toMatchObject({
        limit: 1024 * 1024,
        error: expect.stringContaining("1 MiB"),
        hint: expect.stringMatching(/smaller/i)
      })
      yield* worker.stream(id, ["small"])
      yield* worker.finish(id, 1)
      expect(yield* endpoint.stream(id)).toMatchObject({ status: "COMPLETED", stream: outputs(["small"]) })
    }))

  it.effect("rejects an invalid numbered chunk, and the job continues", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      for (const body of ["", "nope", "[]", "{}", "\"output\""]) {
        yield* Effect.flatMap(worker.call(`${worker.addresses.stream(id)}&chunk=1`, { method: "POST", body }), expectProblem(400))
      }
      expect((yield* endpoint.status(id)).status).toBe("IN_PROGRESS")
    }))
}

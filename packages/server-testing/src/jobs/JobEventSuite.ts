/**
 * Tests job events over Server-Sent Events (contract, JobEvents.ts; R9, docs/spec/figures.md#reliability).
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { dataOf, open, type SentEvent } from "../EventReader.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, ServerTest } from "../ServerTest.ts"
import { type TestEndpoint, until } from "../TestEndpoint.ts"
import { expectProblem } from "../WireClient.ts"

const read = Effect.fnUntraced(function*(endpoint: TestEndpoint, job: string, after?: string, query = "") {
  const { baseUrl } = yield* ServerTest
  return yield* open(`${baseUrl}${endpoint.path(`events/${job}`)}${query}`, {
    authorization: `Bearer ${ADMIN_KEY}`,
    ...(after === undefined ? {} : { "last-event-id": after })
  })
})

const chunksOf = (events: ReadonlyArray<SentEvent>) =>
  Effect.map(
    Effect.forEach(events.filter(({ event }) => event === "chunk"), dataOf),
    (all) => all.map((data) => (data as { readonly output: unknown }).output)
  )

/** Registers the tests for job events. */
export const events = (it: ServerIt): void => {
  it.effect("events: sends statuses, progress, every chunk and the end with the whole job, each with an id, and then closes the response", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      const reader = yield* read(endpoint, id)
      expect(reader.status).toBe(200)
      expect(reader.headers.get("content-type")).toMatch(/^text\/event-stream/)
      expect(reader.headers.get("cache-control")).toBe("no-cache")
      expect(reader.headers.get("x-accel-buffering")).toBe("no")

      const queued = yield* reader.next
      expect([queued?.event, yield* dataOf(queued)]).toEqual(["status", { id, status: "IN_QUEUE", attempt: 0 }])
      yield* worker.next
      const running = yield* reader.next
      expect([running?.event, yield* dataOf(running)]).toEqual([
        "status",
        { id, status: "IN_PROGRESS", attempt: 1, workerId: worker.id }
      ])
      yield* worker.progress(id, { percent: 40 })
      const progress = yield* reader.next
      expect([progress?.event, yield* dataOf(progress)]).toEqual(["progress", { attempt: 1, output: { percent: 40 } }])
      yield* worker.stream(id, ["a", { b: [1] }])
      const [first, second] = [yield* reader.next, yield* reader.next]
      expect([first?.event, yield* dataOf(first)]).toEqual(["chunk", { attempt: 1, number: 1, output: "a" }])
      expect([second?.event, yield* dataOf(second)]).toEqual(["chunk", { attempt: 1, number: 2, output: { b: [1] } }])
      yield* worker.finish(id, "done")
      const last = yield* reader.rest
      expect(last.map(({ event }) => event)).toEqual(["end"])
      expect(yield* dataOf(last[0])).toEqual(yield* endpoint.status(id))
      for (const event of [queued, running, progress, first, second, ...last]) expect(event?.id).toMatch(/^\S+$/)
    }))

  it.effect("events: a client that is cut off every few events receives every chunk once and in order (R9)", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const chunks = Array.from({ length: 60 }, (_, n) => ({ n }))
      const writing = yield* Effect.forkChild(Effect.andThen(worker.stream(id, chunks), worker.finish(id, "done")))
      const seen: Array<SentEvent> = []
      let after: string | undefined
      while (seen.at(-1)?.event !== "end") {
        const reader = yield* read(endpoint, id, after)
        expect(reader.status).toBe(200)
        for (let i = 0; i < 3; i++) {
          const event = yield* reader.next
          if (event === undefined) break
          seen.push(event)
          after = event.id
        }
        yield* reader.cut
      }
      yield* Fiber.join(writing)
      expect(yield* chunksOf(seen)).toEqual(chunks)
    }))

  it.effect("events: accepts the last event id in the query, and returns 204 to a client that has received the end", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.stream(id, [1, 2, 3])
      yield* worker.finish(id, "done")
      const all = yield* (yield* read(endpoint, id)).rest
      const second = all.find(({ data, event }) => event === "chunk" && data.includes("\"number\":2"))
      const rest = yield* (yield* read(endpoint, id, undefined, `?lastEventId=${second?.id}`)).rest
      expect(yield* chunksOf(rest)).toEqual([3])
      expect(rest.at(-1)?.event).toBe("end")
      const over = yield* read(endpoint, id, all.at(-1)?.id)
      expect([over.status, yield* over.rest]).toEqual([204, []])
    }))

  it.effect("events: reading does not drain chunks from /stream, and every client receives all events", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      const readers = yield* Effect.forEach([1, 2, 3, 4, 5], () => read(endpoint, id))
      yield* worker.next
      yield* worker.stream(id, ["x", "y", "z"])
      yield* worker.finish(id, "done")
      for (const reader of readers) expect(yield* chunksOf(yield* reader.rest)).toEqual(["x", "y", "z"])
      const pages = yield* endpoint.streamToEnd(id)
      expect(pages.flatMap(({ stream }) => stream.map(({ output }) => output))).toEqual(["x", "y", "z"])
    }))

  it.effect("events: after a lost attempt, the chunks of the next attempt start at 1 again", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint({ maxAttempts: 3 })
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      const reader = yield* read(endpoint, id)
      yield* worker.next
      yield* worker.stream(id, ["lost"])
      // The worker reports that no job is in progress, so its job is lost and is taken again by this call or the next one.
      const again = yield* until(worker.take(false), (job) => job?.id === id)
      expect(again?.attempt).toBe(2)
      yield* worker.stream(id, ["kept"])
      yield* worker.finish(id, "done")
      const all = yield* reader.rest
      const last = all.filter(({ event }) => event === "chunk").at(-1)
      expect(yield* dataOf(last)).toEqual({ attempt: 2, number: 1, output: "kept" })
      expect(all.at(-1)?.event).toBe("end")
    }))

  it.effect("events: data is the exact JSON that was sent, including line breaks between its tokens", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.call(worker.addresses.stream(id), {
        body: "{\"output\":{\r\n \"a\":\r18446744073709551615,\n\n\"b\":\"\\n\\r\"}}"
      })
      yield* worker.finish(id, 1)
      const chunk = (yield* (yield* read(endpoint, id)).rest).find(({ event }) => event === "chunk")
      expect(chunk?.data).toContain("18446744073709551615")
      expect(yield* dataOf(chunk)).toMatchObject({ output: { b: "\n\r" } })
    }))

  it.effect("events: sends comments while there are no events, and loses no event", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      const reader = yield* read(endpoint, id)
      yield* reader.next
      const next = yield* Effect.forkChild(reader.next)
      yield* until(Effect.sync(reader.comments), (comments) => comments >= 3)
      yield* worker.next
      expect(yield* dataOf(yield* Fiber.join(next))).toMatchObject({ status: "IN_PROGRESS" })
      yield* worker.finish(id, 1)
      expect((yield* reader.rest).map(({ event }) => event)).toEqual(["end"])
    }))

  it.effect("events: when a client disconnects, its resources are released at once and it no longer counts as an open call", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint({ rateLimit: { limit: 10_000, perMs: 1_000, concurrent: 1 } })
      const { id } = yield* endpoint.run({})
      const reader = yield* read(endpoint, id)
      yield* reader.next
      yield* Effect.flatMap(endpoint.call(endpoint.path(`events/${id}`)), expectProblem(429))
      yield* reader.cut
      const again = yield* until(read(endpoint, id), ({ status }) => status !== 429)
      expect((yield* again.next)?.event).toBe("status")
    }))

  it.effect("events: a client that does not read uses no server memory, because its events stay in the store", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      const reader = yield* read(endpoint, id)
      yield* reader.next
      yield* worker.next
      const big = "x".repeat(700_000)
      for (let n = 0; n < 20; n++) yield* worker.stream(id, [`${n}${big}`])
      yield* worker.finish(id, "done")
      // Other clients are not delayed, and this client gets everything once it reads.
      expect((yield* endpoint.status(id)).status).toBe("COMPLETED")
      const outputs = yield* chunksOf(yield* reader.rest)
      expect(outputs.map((output) => String(output).slice(0, 2).replace("x", ""))).toEqual(
        Array.from({ length: 20 }, (_, n) => String(n))
      )
    }))

  it.effect("events: returns 404 for an unknown job, 400 for an unknown event id, 401 without a key", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { id } = yield* endpoint.run({})
      yield* Effect.flatMap(endpoint.call(endpoint.path("events/nope")), expectProblem(404))
      yield* Effect.flatMap(endpoint.call(endpoint.path(`events/${id}`), { authorization: null }), expectProblem(401))
      const headers = { "last-event-id": "yesterday" }
      const problem = yield* Effect.flatMap(endpoint.call(endpoint.path(`events/${id}`), { headers }), expectProblem(400))
      expect(problem.errors).toEqual([{ path: ["Last-Event-ID"], message: expect.any(String) }])
    }))
}

/**
 * Tests which events a subscriber receives when connections are lost at any point, and from platforms without events.
 */
import { Api } from "@stint/contract/Api"
import { HttpApi } from "effect/http-api"
import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { Program } from "../src/protocol/DriverProtocol.ts"
import { type JobEvent, subscribe } from "../src/protocol/JobEventSubscription.ts"
import type { Target } from "../src/protocol/RetriedRequest.ts"
import { SseParser } from "../src/protocol/SseParser.ts"
import {
  closed,
  cut,
  type Entry,
  job,
  KEY,
  opened,
  part,
  perform,
  performWith,
  problem,
  refused,
  response,
  silent,
  target
} from "./ScriptedDriver.ts"

/** Collects all events of a subscription. */
const all = function*(
  of: Target,
  after?: string,
  operation: "events" | "stream" = "events"
): Program<ReadonlyArray<JobEvent>> {
  const next = subscribe(of, "j1", { operation, after })
  const received: Array<JobEvent> = []
  while (true) {
    const events = yield* next()
    if (events === undefined) return received
    received.push(...events)
  }
}

const follow = (script: ReadonlyArray<Entry>, over: Partial<Target> = {}, after?: string) =>
  perform(all(target(over), after), script)

const sent = (id: string, event: string, data: unknown): string => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`
const status = (attempt: number) => sent(`${attempt}.0.r`, "status", { id: "j1", status: "IN_PROGRESS", attempt, workerId: "w" })
const chunk = (attempt: number, number: number, output: unknown = number) =>
  sent(`${attempt}.${number}.r`, "chunk", { attempt, number, output })
const end = sent("1.9.e1", "end", job("COMPLETED", { output: [] }))

const numbersOf = (events: ReadonlyArray<JobEvent> | undefined) =>
  (events ?? []).flatMap((event) => event._tag === "Chunk" ? [event.number] : [])

describe("SseParser", () => {
  const lines = fc.array(
    fc.constantFrom("id: 1", "id: 2", "event: chunk", "data: x", "data: é😀", "data:", "data", ": alive", "retry: 5", "odd", "")
  )

  it("returns the same events for any chunks and line endings", () => {
    fc.assert(fc.property(lines, fc.constantFrom("\n", "\r\n", "\r"), fc.array(fc.nat(30)), (some, eol, cuts) => {
      const text = [...some, "", "id: last", "data: end", "", ""].join(eol)
      const whole = new SseParser().feed(text)
      expect(whole.at(-1)).toEqual({ id: "last", event: "message", data: "end" })
      const stream = new SseParser()
      const parts: Array<string> = []
      let at = 0
      for (const length of cuts) {
        parts.push(text.slice(at, at + length))
        at += length
      }
      parts.push(text.slice(at))
      expect(parts.flatMap((one) => stream.feed(one))).toEqual(whole)
    }))
  })

  it("parses fields, comments and line breaks as the standard specifies", () => {
    expect(new SseParser().feed(": hi\nretry: 1000\n\nid: a\nevent: chunk\ndata: 1\ndata:  2\n\ndata: 3\n\ndata: lost"))
      .toEqual([
        { id: "a", event: "chunk", data: "1\n 2" },
        { id: "a", event: "message", data: "3" }
      ])
  })

  it("takes linear time for a long line", () => {
    const stream = new SseParser()
    const piece = "x".repeat(16_384)
    for (let i = 0; i < 1_280; i++) stream.feed(i === 0 ? `data: ${piece}` : piece)
    expect(stream.feed("\n\n")[0]?.data).toHaveLength(1_280 * 16_384)
  })
})

describe("subscribe", () => {
  it("sends one request, to a route of the contract, if no connection is lost", () => {
    const paths: Array<RegExp> = []
    HttpApi.reflect(Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint }) => {
        if (endpoint.method === "GET") paths.push(new RegExp(`^${endpoint.path.replaceAll(/:\w+/g, "[^/]+")}$`))
      }
    })
    const { calls, value } = follow([opened, part("retry: 1000\n\n"), part(status(1) + chunk(1, 1, "a")), part(end)])
    expect(value).toEqual([
      { _tag: "Status", position: "1.0.r", attempt: 1, status: "IN_PROGRESS", workerId: "w" },
      { _tag: "Chunk", position: "1.1.r", attempt: 1, number: 1, output: "a" },
      { _tag: "End", position: "1.9.e1", job: { id: "j1", status: "COMPLETED", output: [] } }
    ])
    expect(calls.map(({ method, url }) => `${method} ${url}`)).toEqual(["GET http://platform.test/v2/ep/events/j1"])
    expect(paths.filter((path) => path.test("/v2/ep/events/j1"))).toHaveLength(1)
    expect(calls[0]!.headers).toMatchObject({ accept: "text/event-stream", authorization: `Bearer ${KEY}` })
  })

  it("returns all events once and in order, wherever connections are lost", () => {
    const texts = fc.array(fc.string(), { maxLength: 12 })
    const trouble = fc.infiniteStream(fc.constantFrom(0, 0, 0, 1, 2, 3, 4, 5, 6))
    fc.assert(fc.property(texts, trouble, fc.infiniteStream(fc.nat(40)), (outputs, troubles, lengths) => {
      const events = [
        { id: "1.0.r", text: status(1) },
        ...outputs.map((output, i) => ({ id: `1.${i + 1}.r`, text: chunk(1, i + 1, output) })),
        { id: "e", text: sent("e", "end", job("COMPLETED")) }
      ]
      let left = ""
      const replies = [cut(), closed, refused, problem(503, "unavailable"), response(502, "<html>"), silent]
      const { error, value } = performWith(all(target({ reconnectFor: 1e9 })), (step) => {
        const bad = replies[troubles.next().value! - 1]
        if (step._tag === "OpenStream") {
          if (bad !== undefined && bad._tag !== "Closed") return bad
          const place = new URL(step.url).searchParams.get("lastEventId")
          left = `retry: 1000\n\n${events.slice(events.findIndex(({ id }) => id === place) + 1).map(({ text }) => text).join("")}`
          return opened
        }
        expect(step._tag).toBe("Read")
        if (bad !== undefined && bad._tag !== "HttpResponse") return bad
        const length = 1 + lengths.next().value!
        const text = left.slice(0, length)
        left = left.slice(length)
        return part(text, 500)
      })
      expect(error).toBeUndefined()
      expect(value?.flatMap((event) => event._tag === "Chunk" ? [event.output] : [])).toEqual(outputs)
      expect(value?.map(({ _tag }) => _tag)).toEqual(["Status", ...outputs.map(() => "Chunk"), "End"])
    }))
  })

  it("resumes after a given position, and returns nothing after the end", () => {
    const { calls, value } = follow([opened, part(chunk(1, 4) + end)], {}, "1.3.r")
    expect(calls[0]!.url).toBe("http://platform.test/v2/ep/events/j1?lastEventId=1.3.r")
    expect(numbersOf(value)).toEqual([4])
    expect(follow([response(204, "")], {}, "1.9.e1").value).toEqual([])
  })

  it("returns a new attempt and all of its chunks", () => {
    const { value } = follow([opened, part(status(1) + chunk(1, 1) + chunk(1, 2) + status(2) + chunk(2, 1) + end)])
    expect(value?.map((event) => event._tag === "Chunk" ? `${event.attempt}.${event.number}` : event._tag)).toEqual(
      ["Status", "1.1", "1.2", "Status", "2.1", "End"]
    )
  })

  it("returns log lines, which `stream` does not request", () => {
    const line = { number: 1, time: 7, level: "WARN", message: "hot", attempt: 1, source: "log", workerId: "w" }
    const { calls, value } = follow([opened, part(sent("1.0.r.1", "log", line) + end)])
    expect(value?.[0]).toEqual({ _tag: "Log", position: "1.0.r.1", ...line })
    expect(calls[0]!.url).toBe("http://platform.test/v2/ep/events/j1")
    const streamed = perform(all(target(), "1.0.r", "stream"), [opened, part(end)])
    expect(streamed.calls[0]!.url).toBe("http://platform.test/v2/ep/events/j1?events=status,chunk&lastEventId=1.0.r")
  })

  it("skips unknown kinds of events, and resumes after them", () => {
    const { calls, value } = follow([
      opened,
      part(chunk(1, 1) + sent("1.1.r", "weather", { rain: true }) + sent("x.7", "weather", 1)),
      cut(),
      opened,
      part(end)
    ])
    expect(value?.map(({ _tag }) => _tag)).toEqual(["Chunk", "End"])
    expect(calls.at(-1)!.url).toContain("lastEventId=x.7")
  })

  it("fails with Unexpected for events with invalid data", () => {
    for (const bad of [sent("1", "chunk", { attempt: 1 }), sent("1", "end", job("IN_PROGRESS")), "event: status\ndata: {\n\n"]) {
      expect(follow([opened, part(bad)]).error?.reason).toMatchObject({ _tag: "Unexpected" })
    }
  })

  it("reconnects if the platform is unreachable for less than reconnectFor, and otherwise fails with the job's id", () => {
    const away = Array.from({ length: 40 }, () => refused)
    expect(numbersOf(follow([opened, part(chunk(1, 1)), cut(), ...away, opened, part(chunk(1, 2) + end)]).value)).toEqual([1, 2])
    const { error, took } = follow([opened, part(chunk(1, 1)), cut(), refused])
    expect(error).toMatchObject({ job: "j1", operation: "events", reason: { _tag: "Unreachable", sent: false } })
    expect(took).toBeGreaterThan(280_000)
    expect(took).toBeLessThanOrEqual(301_000)
  })

  it("fails if every connection closes at once, and continues if connections close after a while", () => {
    let open = false
    const resetConnection = (step: { readonly _tag: string }, lived: number): Entry => {
      open = step._tag === "OpenStream"
      return open ? opened : { ...cut(lived) }
    }
    expect(performWith(all(target()), (step) => resetConnection(step, 1)).error?.reason).toMatchObject({ _tag: "Unreachable" })
    let cuts = 0
    const { value } = performWith(all(target()), (step) => {
      if (step._tag === "OpenStream") return opened
      cuts += 1
      return cuts > 1_000 ? part(end) : cut(10_000)
    })
    expect(value).toHaveLength(1)
  })

  it("treats a silent connection as lost", () => {
    const { calls, steps, value } = follow([opened, part(": alive\n\n", 15_000), silent, opened, part(end)])
    expect(steps.flatMap((step) => step._tag === "Read" ? [step.timeout] : [])[0]).toBe(85_000)
    expect([calls.length, value?.length]).toEqual([2, 1])
  })

  it("fails for an unknown job, a wrong key and an invalid position", () => {
    for (
      const [status, kind, tag] of [
        [404, "job-not-found", "NotFound"],
        [401, "unauthorized", "Unauthorized"],
        [403, "forbidden", "Unauthorized"],
        [400, "invalid-request", "Invalid"]
      ] as const
    ) {
      const { calls, error } = follow([problem(status, kind)])
      expect([calls.length, error?.reason._tag]).toEqual([1, tag])
    }
  })
})

describe("subscribe on a platform without events", () => {
  /** Such platforms' responses to an unknown route. */
  const NONE: ReadonlyArray<Entry> = [
    response(404, "404 page not found"),
    response(404, { message: "Not Found" }),
    response(405, ""),
    response(400, { error: "not allowed for QB API" }),
    response(401, ""),
    response(200, { id: "j1", status: "IN_PROGRESS" }),
    response(501, ""),
    problem(404, "route-not-found")
  ]
  const none = NONE[0]!
  const page = (status: string, ...outputs: ReadonlyArray<unknown>) =>
    response(200, job(status, { stream: outputs.map((output) => ({ output })) }), { took: 1_000 })
  const chunksOf = (events: ReadonlyArray<JobEvent> | undefined) =>
    (events ?? []).flatMap((event) => event._tag === "Chunk" ? [event.output] : [])

  it("falls back to `stream` after any response that shows that there are no events", () => {
    for (const response of NONE) {
      const { calls, value } = follow([response, page("IN_PROGRESS", 1), page("COMPLETED", 2)])
      expect(chunksOf(value)).toEqual([1, 2])
      expect(calls.map(({ url }) => new URL(url).pathname)).toEqual(["/v2/ep/events/j1", "/v2/ep/stream/j1", "/v2/ep/stream/j1"])
    }
  })

  it("returns every chunk once and in order, and ends with the job", () => {
    const pages = fc.array(fc.array(fc.integer(), { maxLength: 5 }), { maxLength: 10 })
    fc.assert(
      fc.property(
        pages,
        fc.array(fc.integer(), { maxLength: 3 }),
        fc.constantFrom("COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"),
        (pages, last, end) => {
          const { value } = follow([none, ...pages.map((chunks) => page("IN_PROGRESS", ...chunks)), page(end, ...last)])
          expect(chunksOf(value)).toEqual([...pages.flat(), ...last])
          expect(value?.at(-1)).toMatchObject({ _tag: "End", position: undefined, job: { status: end } })
        }
      )
    )
  })

  it("derives statuses, progress and attempts from the pages", () => {
    const shown = (status: string, over: object) => response(200, job(status, { stream: [], ...over }), { took: 1_000 })
    const { value } = follow([
      none,
      shown("IN_QUEUE", {}),
      shown("IN_QUEUE", {}),
      shown("IN_PROGRESS", { workerId: "w1", stream: [{ output: "a" }, { output: "b" }] }),
      shown("IN_PROGRESS", { workerId: "w1", output: { percent: 5 } }),
      shown("IN_PROGRESS", { workerId: "w1", output: { percent: 5 } }),
      shown("IN_PROGRESS", { workerId: "w2", retries: 1, stream: [{ output: "a" }] }),
      shown("FAILED", { workerId: "w2", retries: 1, error: "no" })
    ])
    const position = undefined
    expect(value).toEqual([
      { _tag: "Status", position, attempt: 0, status: "IN_QUEUE", workerId: undefined },
      { _tag: "Status", position, attempt: 1, status: "IN_PROGRESS", workerId: "w1" },
      { _tag: "Chunk", position, attempt: 1, number: 1, output: "a" },
      { _tag: "Chunk", position, attempt: 1, number: 2, output: "b" },
      { _tag: "Progress", position, attempt: 1, output: { percent: 5 } },
      { _tag: "Status", position, attempt: 2, status: "IN_PROGRESS", workerId: "w2" },
      { _tag: "Chunk", position, attempt: 2, number: 1, output: "a" },
      { _tag: "End", position, job: { id: "j1", status: "FAILED", workerId: "w2", retries: 1, error: "no" } }
    ])
  })

  it("fails if chunks are lost with a response", () => {
    const { calls, error } = follow([none, page("IN_PROGRESS", 1), cut(), page("COMPLETED", 3)])
    expect(calls).toHaveLength(3)
    expect(error?.message).toContain("Chunks in the lost response cannot be read again")
  })

  it("retries if the platform did not receive the request", () => {
    const { value } = follow([none, page("IN_PROGRESS", 1), refused, refused, problem(503, "unavailable"), page("COMPLETED", 2)])
    expect(chunksOf(value)).toEqual([1, 2])
  })

  it("pauses between polls if the platform responds at once without chunks", () => {
    const quick = response(200, job("IN_QUEUE", { stream: [] }), { took: 1 })
    const { calls, took } = follow([none, ...Array.from({ length: 50 }, () => quick), page("COMPLETED")])
    expect(took / calls.length).toBeGreaterThan(800)
  })

  it("fails with the error of `stream` if both routes fail", () => {
    expect(follow([none]).error?.reason).toEqual({ _tag: "NotFound", what: "address" })
    expect(follow([response(401, "")]).error?.reason).toEqual({ _tag: "Unauthorized", status: 401 })
    expect(follow([response(200, "<html><title>Log in</title></html>")]).error?.reason).toMatchObject({ _tag: "Unexpected" })
  })

  it("retries temporary errors of `events` instead of reading `stream`", () => {
    for (const trouble of [response(502, "<html>"), response(429, ""), response(408, ""), refused, cut()]) {
      const { calls } = follow([trouble, opened, part(end)])
      expect(calls.map(({ _tag }) => _tag)).toEqual(["OpenStream", "OpenStream"])
    }
  })
})

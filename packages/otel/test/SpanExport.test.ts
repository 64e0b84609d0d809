import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { HttpClient, HttpClientResponse } from "effect/http"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import type { Settings } from "../src/OtlpConfig.ts"
import * as SpanExport from "../src/SpanExport.ts"

const settings: Settings = {
  url: "http://collector:4318/v1/traces",
  protocol: "http/json",
  headers: Redacted.make({ "x-key": "k" }),
  compression: "none",
  timeout: 10_000,
  sampler: "parentbased_always_on",
  ratio: 1,
  serviceName: undefined,
  resource: { "deployment.environment.name": "test" },
  scheduleDelay: 1_000,
  maxQueueSize: 10,
  maxBatchSize: 4
}

const span = (n: number, more: Partial<SpanExport.FinishedSpan> = {}): SpanExport.FinishedSpan => ({
  name: `span ${n}`,
  kind: "internal",
  traceId: "a".repeat(32),
  spanId: String(n).padStart(16, "0"),
  parentSpanId: undefined,
  traceState: undefined,
  start: 1_790_000_000_000.25,
  end: 1_790_000_000_001,
  attributes: {},
  links: [],
  error: undefined,
  ...more
})

/** A collector without a network, and an exporter that sends to it. */
const setup = Effect.fnUntraced(function*(changes: Partial<Settings> = {}) {
  const bodies: Array<string> = []
  const counts = { sent: 0, lost: 0 }
  const lines: Array<string> = []
  const collector = { status: 200 }
  const http = HttpClient.make((request) =>
    Effect.sync(() => {
      const { body } = request
      if (body._tag === "Uint8Array") bodies.push(new TextDecoder().decode(body.body))
      return HttpClientResponse.fromWeb(request, new Response("{}", { status: collector.status }))
    })
  )
  const scope = yield* Scope.make()
  const logger = Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))
  const spans = yield* SpanExport.make({
    settings: { ...settings, ...changes },
    identity: { serviceName: "stint", attributes: {} },
    scope: { name: "test" },
    counts: {
      sent: (count) => {
        counts.sent += count
      },
      lost: (count) => {
        counts.lost += count
      }
    }
  }).pipe(
    Effect.provideService(HttpClient.HttpClient, http),
    Effect.provide(Logger.layer([logger])),
    Scope.provide(scope)
  )
  return { bodies, close: Scope.close(scope, Exit.void), collector, counts, lines, spans }
})

describe("the export of finished spans", () => {
  it.effect("sends what was added, with its ids, times and errors", () =>
    Effect.gen(function*() {
      const { bodies, close, counts, spans } = yield* setup()
      spans.add(span(1, { attributes: { a: 1, gone: undefined }, links: ["b".repeat(16)], traceState: "v=1" }))
      spans.add(span(2, { error: { type: "RangeError", message: "too far" } }))
      yield* TestClock.adjust("1 second")
      expect(counts).toEqual({ sent: 2, lost: 0 })
      const { resourceSpans: [{ resource, scopeSpans: [{ spans: sent }] }] } = JSON.parse(bodies[0] ?? "")
      expect(resource.attributes).toContainEqual({ key: "service.name", value: { stringValue: "stint" } })
      expect(resource.attributes).toContainEqual({ key: "deployment.environment.name", value: { stringValue: "test" } })
      expect(sent[0]).toMatchObject({
        name: "span 1",
        kind: 1,
        traceState: "v=1",
        startTimeUnixNano: "1790000000000250000",
        endTimeUnixNano: "1790000000001000000",
        attributes: [{ key: "a", value: { intValue: 1 } }],
        links: [{ traceId: "a".repeat(32), spanId: "b".repeat(16) }],
        status: { code: 0 }
      })
      expect(sent[1]).toMatchObject({
        attributes: [{ key: "error.type", value: { stringValue: "RangeError" } }],
        status: { code: 2, message: "too far" }
      })
      yield* close
    }))

  it.effect("sends a full batch at once, and the rest when it is closed", () =>
    Effect.gen(function*() {
      const { bodies, close, counts, spans } = yield* setup({ scheduleDelay: 3_600_000 })
      for (let n = 0; n < 4; n++) spans.add(span(n))
      yield* TestClock.adjust(0)
      expect(bodies).toHaveLength(1)
      spans.add(span(5))
      yield* close
      expect(bodies).toHaveLength(2)
      expect(counts).toEqual({ sent: 5, lost: 0 })
    }))

  it.effect("counts every lost span, and logs one line for an outage and one for its end", () =>
    Effect.gen(function*() {
      const { close, collector, counts, lines, spans } = yield* setup()
      collector.status = 400
      for (const n of [1, 2, 3]) {
        spans.add(span(n))
        yield* TestClock.adjust("1 second")
      }
      expect(counts).toEqual({ sent: 0, lost: 3 })
      collector.status = 200
      spans.add(span(4))
      yield* TestClock.adjust("1 second")
      expect(counts).toEqual({ sent: 1, lost: 3 })
      expect(lines).toHaveLength(2)
      expect(lines[0]).toMatch(/^Warn Traces cannot be sent to http:\/\/collector:4318\/v1\/traces: .*400/)
      expect(lines[1]).toBe("Info Traces are sent again; 3 spans were lost.")
      yield* close
    }))

  it.effect("drops spans when its queue is full", () =>
    Effect.gen(function*() {
      const { close, counts, lines, spans } = yield* setup({ scheduleDelay: 3_600_000, maxBatchSize: 1_000 })
      for (let n = 0; n < 13; n++) spans.add(span(n))
      yield* close
      expect(counts).toEqual({ sent: 10, lost: 3 })
      expect(lines[0]).toContain("OTEL_BSP_MAX_QUEUE_SIZE")
    }))

  it.effect("retries a batch while the collector is unavailable", () =>
    Effect.gen(function*() {
      const { bodies, close, collector, counts, spans } = yield* setup()
      collector.status = 503
      spans.add(span(1))
      yield* TestClock.adjust("1 second")
      expect(counts).toEqual({ sent: 0, lost: 0 })
      collector.status = 200
      yield* TestClock.adjust("1 second")
      expect(counts).toEqual({ sent: 1, lost: 0 })
      expect(bodies).toHaveLength(2)
      yield* close
    }))
})

import { describe, expect, it } from "@effect/vitest"
import { trace } from "@opentelemetry/api"
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import { PlatformStub } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as OtlpCollector from "./OtlpCollector.ts"
import { CALLER, resultOf, Square, start, TRACE, traceparent, unrecorded } from "./TracedWorker.ts"

const json = (collector: OtlpCollector.Collector, more: Record<string, string> = {}) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  OTEL_BSP_SCHEDULE_DELAY: "1",
  ...more
})

describe("a worker whose environment names a collector", () => {
  it.live("sends a job's spans as one tree below the caller's span", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const collector = yield* OtlpCollector.make
      const { close } = yield* start(stub, Square, json(collector))
      const id = stub.submit({ n: 3 }, { traceparent, tracestate: "vendor=7", delayTime: 250, attempt: 1 })
      expect(yield* resultOf(stub, id)).toEqual({ output: 9 })
      yield* close
      const job = collector.named("process stub")
      expect(job).toMatchObject({
        traceId: TRACE,
        parentSpanId: CALLER,
        traceState: "vendor=7",
        kind: 5,
        scope: "@stint/telemetry"
      })
      expect(job.attributes).toEqual({
        "messaging.system": "stint",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "stub",
        "messaging.message.id": id,
        "faas.trigger": "pubsub",
        "faas.coldstart": true,
        "stint.job.id": id,
        "stint.job.attempt": 1,
        "stint.job.wait_ms": 250,
        "stint.endpoint": "stub"
      })
      expect(job.resource).toMatchObject({ "service.name": "stub", "service.instance.id": "stub-worker" })
      const handler = collector.named("handler")
      expect(Object.fromEntries(collector.spans.map(({ name, parentSpanId }) => [name, parentSpanId]))).toEqual({
        "process stub": CALLER,
        handler: job.spanId,
        validate: handler.spanId,
        deliver: job.spanId
      })
      expect(collector.spans.map(({ traceId }) => traceId)).toEqual(Array.from({ length: 4 }, () => TRACE))
      expect(collector.spans.map(({ status }) => status.code)).toEqual(collector.spans.map(() => 0))
    }))

  it.live("makes the spans of a plugin's plain code children of the job's span", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const collector = yield* OtlpCollector.make
      const plugin = JobMiddleware.make((next, job) =>
        Effect.flatMap(
          Effect.promise(async () => trace.getTracer("plugin").startSpan("plugin").end()),
          () => next(job)
        )
      )
      const { close } = yield* start(stub, Square, json(collector), plugin)
      yield* resultOf(stub, stub.submit({ n: 3 }, { traceparent }))
      yield* close
      expect(collector.named("plugin").parentSpanId).toBe(collector.named("process stub").spanId)
    }))

  it.live("sends protobuf by default", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const collector = yield* OtlpCollector.make
      const { close } = yield* start(stub, Square, { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/here` })
      const id = stub.submit({ n: 3 }, { traceparent })
      yield* resultOf(stub, id)
      yield* close
      const [request] = collector.requests
      expect(request?.path).toBe("/here")
      expect(request?.headers["content-type"]).toBe("application/x-protobuf")
      expect(request?.body.includes(Buffer.from(TRACE, "hex"))).toBe(true)
      expect(request?.body.includes(Buffer.from(CALLER, "hex"))).toBe(true)
      for (const name of ["process stub", "handler", "validate", "deliver"]) expect(request?.body.includes(name)).toBe(true)
    }))

  it.live("records the error in the spans of a failed job", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const collector = yield* OtlpCollector.make
      const { close } = yield* start(stub, Square, json(collector))
      yield* resultOf(stub, stub.submit({ n: -1 }, { traceparent }))
      yield* close
      const handler = collector.named("handler")
      expect(handler.status).toEqual({ code: 2, message: "-1 is negative" })
      expect(handler.events[0]).toMatchObject({
        name: "exception",
        attributes: { "exception.type": "RangeError", "exception.message": "-1 is negative" }
      })
      expect(handler.attributes["error.type"]).toBe("RangeError")
      expect(collector.named("process stub")).toMatchObject({
        status: { code: 2, message: "-1 is negative" },
        attributes: { "error.type": "RangeError" }
      })
      expect(collector.named("deliver").status.code).toBe(0)
    }))

  it.live("does not send spans when the caller's trace is not sampled", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const collector = yield* OtlpCollector.make
      const { close } = yield* start(stub, Square, json(collector))
      const first = stub.submit({ n: 3 }, { traceparent: unrecorded })
      yield* resultOf(stub, first)
      const second = stub.submit({ n: 4 }, { traceparent })
      yield* resultOf(stub, second)
      yield* close
      expect(collector.spans).toHaveLength(4)
      expect(collector.named("process stub").attributes["stint.job.id"]).toBe(second)
    }))

  it.live("samples the traces of jobs without a caller's trace as OTEL_TRACES_SAMPLER specifies", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const collector = yield* OtlpCollector.make
      const silent = yield* start(stub, Square, json(collector, { OTEL_TRACES_SAMPLER: "parentbased_always_off" }))
      yield* resultOf(stub, stub.submit({ n: 3 }))
      yield* resultOf(stub, stub.submit({ n: 3 }, { traceparent }))
      yield* silent.close
      expect(collector.spans.map(({ traceId }) => traceId)).toEqual(Array.from({ length: 4 }, () => TRACE))
      const eager = yield* start(stub, Square, json(collector))
      yield* resultOf(stub, stub.submit({ n: 3 }))
      yield* eager.close
      const own = collector.spans.slice(4)
      expect(own).toHaveLength(4)
      expect(own[0]?.traceId).not.toBe(TRACE)
      expect(own.find(({ name }) => name === "process stub")?.parentSpanId ?? "").toBe("")
    }))

  it.live("sends OTEL_EXPORTER_OTLP_HEADERS as headers, and the service name and attributes with each span", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const collector = yield* OtlpCollector.make
      const { close } = yield* start(
        stub,
        Square,
        json(collector, {
          OTEL_EXPORTER_OTLP_HEADERS: "x-key=a%3Db,x-tenant=t1",
          OTEL_SERVICE_NAME: "thumbnails",
          OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test,service.name=ignored"
        })
      )
      yield* resultOf(stub, stub.submit({ n: 3 }))
      yield* close
      expect(collector.requests[0]).toMatchObject({ path: "/v1/traces", headers: { "x-key": "a=b", "x-tenant": "t1" } })
      expect(collector.named("handler").resource).toMatchObject({
        "service.name": "thumbnails",
        "deployment.environment.name": "test"
      })
    }))
})

describe("an unavailable collector", () => {
  it.live("causes one WARN line for each outage and one INFO line after it, and does not fail any job", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const collector = yield* OtlpCollector.make
      collector.failNext(400, 400, 400)
      const { close, log } = yield* start(stub, Square, json(collector))
      for (let n = 1; n <= 3; n++) {
        expect(yield* resultOf(stub, stub.submit({ n }, { traceparent }))).toEqual({ output: n * n })
        yield* collector.until(() => collector.requests.length >= n)
      }
      const warning = yield* log.until(/Traces cannot be sent/)
      expect(warning.level).toBe("WARN")
      expect(warning.message).toContain(collector.url)
      expect(warning.message).toContain("400")
      yield* resultOf(stub, stub.submit({ n: 4 }, { traceparent }))
      expect((yield* log.until(/Traces are sent again/)).message).toMatch(/; \d+ spans were lost/)
      yield* close
      expect(log.lines.filter(({ level }) => level === "WARN")).toHaveLength(1)
    }))

  it.live("does not stop jobs, and delays the shutdown by at most one export attempt", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const { close, log } = yield* start(stub, Square, {
        // No collector is listening on this port.
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1",
        OTEL_EXPORTER_OTLP_TIMEOUT: "300"
      })
      expect(yield* resultOf(stub, stub.submit({ n: 3 }, { traceparent }))).toEqual({ output: 9 })
      yield* close
      expect(log.lines.filter(({ level }) => level === "WARN").map(({ message }) => message)).toEqual([
        expect.stringMatching(/ECONNREFUSED/)
      ])
    }))

  it.effect("delays the shutdown by at most three seconds when it hangs", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const collector = yield* OtlpCollector.make
      collector.failNext("hang", "hang", "hang")
      const { close, log } = yield* start(stub, Square, json(collector))
      yield* resultOf(stub, stub.submit({ n: 3 }, { traceparent }))
      yield* collector.until(() => collector.requests.length === 1)
      yield* resultOf(stub, stub.submit({ n: 4 }, { traceparent }))
      const closing = yield* Effect.forkChild(close)
      // Waits for the timers of the first request. From here on, only the test advances the clock.
      yield* collector.until(() => collector.requests.length === 2)
      yield* TestClock.adjust("2999 millis")
      expect(closing.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust("1 millis")
      yield* Fiber.join(closing)
      expect(log.lines.filter(({ level }) => level === "WARN").map(({ message }) => message)).toEqual([
        "The last spans were not sent within 3000 ms and are lost."
      ])
    }))
})

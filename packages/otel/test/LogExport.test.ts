import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import * as LogExport from "../src/LogExport.ts"
import type { LogSettings } from "../src/OtlpConfig.ts"

const settings: LogSettings = {
  url: "http://collector:4318/v1/logs",
  protocol: "http/json",
  headers: Redacted.make({}),
  compression: "none",
  timeout: 10_000,
  serviceName: undefined,
  resource: {},
  scheduleDelay: 1_000,
  maxQueueSize: 10,
  maxBatchSize: 4
}

describe("the export of log records", () => {
  it.effect("sends what was added, with its time, level, attributes and span, and counts what an outage loses", () =>
    Effect.gen(function*() {
      const bodies: Array<string> = []
      const counts = { sent: 0, lost: 0 }
      const lines: Array<string> = []
      const collector = { status: 200 }
      const http = HttpClient.make((request) =>
        Effect.sync(() => {
          if (request.body._tag === "Uint8Array") bodies.push(new TextDecoder().decode(request.body.body))
          return HttpClientResponse.fromWeb(request, new Response("{}", { status: collector.status }))
        })
      )
      const logger = Logger.make(({ message }) => void lines.push(String(message)))
      const records = yield* LogExport.make({
        settings,
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
      }).pipe(Effect.provideService(HttpClient.HttpClient, http), Effect.provide(Logger.layer([logger])))
      const span = { traceId: "a".repeat(32), spanId: "b".repeat(16) }
      records.add({ time: 1_790_000_000_000, level: "WARN", message: "low disk", span, attributes: { n: 1, gone: undefined } })
      records.add({ time: 1_790_000_000_001, level: "TRACE", message: "", span: undefined, attributes: {} })
      yield* TestClock.adjust("1 second")
      const { resourceLogs: [{ resource, scopeLogs: [{ logRecords, scope }] }] } = JSON.parse(bodies[0] ?? "")
      expect(resource.attributes).toContainEqual({ key: "service.name", value: { stringValue: "stint" } })
      expect(scope).toEqual({ name: "test" })
      expect(logRecords).toEqual([
        {
          timeUnixNano: "1790000000000000000",
          observedTimeUnixNano: "1790000000000000000",
          severityNumber: 13,
          severityText: "WARN",
          body: { stringValue: "low disk" },
          attributes: [{ key: "n", value: { intValue: 1 } }],
          droppedAttributesCount: 0,
          ...span
        },
        expect.objectContaining({ severityNumber: 1, body: { stringValue: "" } })
      ])
      expect(logRecords[1]).not.toHaveProperty("traceId")
      collector.status = 400
      records.add({ time: 0, level: "INFO", message: "lost", span: undefined, attributes: {} })
      yield* TestClock.adjust("1 second")
      expect(counts).toEqual({ sent: 2, lost: 1 })
      expect(lines).toEqual([expect.stringMatching(/^Log lines cannot be sent to http:\/\/collector:4318\/v1\/logs: .*400/)])
    }))
})

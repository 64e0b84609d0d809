import { describe, expect, it } from "@effect/vitest"
import { PlatformStub, WorkerProcess } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { fileURLToPath } from "node:url"
import * as OtlpCollector from "./OtlpCollector.ts"
import { TRACE, traceparent } from "./TracedWorker.ts"

const fixture = (name: string) => new URL(`./fixtures/${name}.ts`, import.meta.url)
const worker = fileURLToPath(fixture("worker"))

const decodeLoaded = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ opentelemetry: Schema.Array(Schema.String) }))
)

/** Runs the file as a worker until it has finished one job, stops it, and returns the OpenTelemetry modules that it loaded. */
const runOneJob = Effect.fnUntraced(function*(file: string, env: Record<string, string>) {
  const stub = yield* PlatformStub.make()
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      WorkerProcess.start(file, {
        env: { ...stub.environment(), NODE_OPTIONS: `--import ${fixture("modules").href}`, ...env }
      })
    ),
    (started) =>
      Effect.promise(() => {
        started.kill("SIGKILL")
        return started.ended
      })
  )
  const id = stub.submit(21, { traceparent })
  expect(yield* Effect.promise(() => stub.resultOf(id))).toEqual({ output: 42 })
  child.kill("SIGTERM")
  const ended = yield* Effect.promise(() => child.ended)
  expect(ended.code).toBe(0)
  return decodeLoaded(ended.stderr).opentelemetry
})

describe("a worker", () => {
  it.live("loads no OpenTelemetry module when no variable configures traces", () =>
    Effect.gen(function*() {
      expect(yield* runOneJob(worker, {})).toEqual([])
    }))

  it.live("sends its last spans before its process exits", () =>
    Effect.gen(function*() {
      const collector = yield* OtlpCollector.make
      const loaded = yield* runOneJob(worker, {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        // No batch is exported before the worker ends.
        OTEL_BSP_SCHEDULE_DELAY: "3600000"
      })
      expect(loaded).not.toEqual([])
      expect(collector.spans.map(({ name }) => name).toSorted((a, b) => a.localeCompare(b))).toEqual([
        "deliver",
        "handler",
        "process stub"
      ])
      expect(collector.spans.map(({ traceId }) => traceId)).toEqual(Array.from({ length: 3 }, () => TRACE))
    }))
})

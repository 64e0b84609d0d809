import { describe, expect, it } from "@effect/vitest"
import { bundle } from "@stint/pool-process/HandlerBundle"
import { PlatformStub, WorkerProcess } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Collector from "./Collector.ts"
import { TRACE, traceparent } from "./tracedWorker.ts"

const fixture = (name: string) => new URL(`./fixtures/${name}.ts`, import.meta.url)
const worker = fileURLToPath(fixture("worker"))

const decodeLoaded = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ opentelemetry: Schema.Array(Schema.String) }))
)

/** Runs the file as a worker until it has done one job, asks it to stop, and gives what it loaded of OpenTelemetry. */
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

/** The handler as the pool runs it: one file. */
const bundled = Effect.gen(function*() {
  const folder = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "stint-telemetry-"))),
    (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
  )
  return yield* bundle(worker, folder)
})

describe.each([["from its sources", Effect.succeed(worker)], ["from the pool's bundle", bundled]])("a worker %s", (_, file) => {
  it.live("loads nothing of OpenTelemetry where no variable asks for it", () =>
    Effect.gen(function*() {
      expect(yield* runOneJob(yield* file, {})).toEqual([])
    }))

  it.live("sends its last spans before its process ends", () =>
    Effect.gen(function*() {
      const collector = yield* Collector.make
      const loaded = yield* runOneJob(yield* file, {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        // Nothing goes before the end.
        OTEL_BSP_SCHEDULE_DELAY: "3600000"
      })
      expect(loaded).not.toEqual([])
      expect(collector.spans.map(({ name }) => name).toSorted((a, b) => a.localeCompare(b))).toEqual([
        "deliver",
        "handler",
        "job double",
        "wait"
      ])
      expect(collector.spans.map(({ traceId }) => traceId)).toEqual(Array.from({ length: 4 }, () => TRACE))
    }))
})

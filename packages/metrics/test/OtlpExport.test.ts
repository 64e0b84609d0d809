import { expect, layer } from "@effect/vitest"
import type { MetricSettings } from "@stint/otel/OtlpConfig"
import * as ServerTest from "@stint/server-testing/ServerTest"
import * as Effect from "effect/Effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Metrics from "../src/index.ts"
import * as OtlpExport from "../src/OtlpExport.ts"

const settings: MetricSettings = {
  url: "http://collector:4318/v1/metrics",
  protocol: "http/json",
  headers: Redacted.make({}),
  compression: "none",
  timeout: 10_000,
  serviceName: undefined,
  resource: {},
  interval: 20
}

/** The bodies that arrived, newest last. The collector rejects them while `status` says so. */
const collector = { bodies: new Array<string>(), status: 200 }

const http = HttpClient.make((request) =>
  Effect.sync(() => {
    const { body } = request
    if (collector.status === 200 && body._tag === "Uint8Array") collector.bodies.push(new TextDecoder().decode(body.body))
    return HttpClientResponse.fromWeb(request, new Response("{}", { status: collector.status }))
  })
)

const platform = ServerTest.layer({
  stores: Metrics.layerStores.pipe(Layer.provideMerge(ServerTest.layerMemory)),
  routes: Layer.merge(
    Metrics.layerPage,
    OtlpExport.layer(settings).pipe(Layer.provide(Layer.succeed(HttpClient.HttpClient, http)))
  )
}).pipe(Layer.provide(Metrics.layerRegistry))

interface Point {
  readonly asDouble?: number
  readonly attributes: ReadonlyArray<{ readonly key: string; readonly value: { readonly stringValue?: string } }>
}

interface Sent {
  readonly name: string
  readonly sum?: { readonly dataPoints: ReadonlyArray<Point>; readonly isMonotonic: boolean }
  readonly gauge?: { readonly dataPoints: ReadonlyArray<Point> }
  readonly histogram?: { readonly dataPoints: ReadonlyArray<{ readonly count: number }> }
}

/** The metrics in the newest body. */
const newest = (): ReadonlyMap<string, Sent> => {
  const body: unknown = JSON.parse(collector.bodies.at(-1) ?? "{}")
  const { resourceMetrics = [] } = body as {
    readonly resourceMetrics?: ReadonlyArray<{ readonly scopeMetrics: ReadonlyArray<{ readonly metrics: ReadonlyArray<Sent> }> }>
  }
  return new Map(
    resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics.map((one) => [one.name, one])))
  )
}

/** Waits until a body passes the check. */
const until = (check: (metrics: ReadonlyMap<string, Sent>) => boolean) =>
  Effect.suspend(() => check(newest()) ? Effect.void : Effect.fail("not yet")).pipe(
    Effect.retry({ schedule: Schedule.spaced(10), times: 2_000 }),
    Effect.orDie
  )

layer(platform, { excludeTestServices: true })("metrics over OTLP", (it) => {
  it.effect("contain the counts and the state of the platform", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest.ServerTest
      const endpoint = yield* server.endpoint()
      yield* endpoint.run(1)
      const ofEndpoint = (points: ReadonlyArray<Point> = []) =>
        points.find(({ attributes }) => attributes.some(({ value }) => value.stringValue === endpoint.id))?.asDouble
      yield* until((metrics) =>
        ofEndpoint(metrics.get("stint_jobs_submitted_total")?.sum?.dataPoints) === 1 &&
        ofEndpoint(metrics.get("stint_jobs_waiting")?.gauge?.dataPoints) === 1
      )
      const metrics = newest()
      expect(metrics.get("stint_jobs_submitted_total")?.sum?.isMonotonic).toBe(true)
      expect(metrics.get("stint_store_operation_seconds")?.histogram?.dataPoints[0]?.count).toBeGreaterThan(0)
      expect(metrics.get("process_resident_memory_bytes")?.gauge?.dataPoints[0]?.asDouble).toBeGreaterThan(1e6)
      expect(collector.bodies[0]).toContain("\"service.name\",\"value\":{\"stringValue\":\"stint\"}")
    }))

  it.effect("are logged as missing when the collector rejects them", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest.ServerTest
      collector.status = 400
      const warnings = Effect.map(server.logs, (lines) => lines.filter((line) => line.includes("Metrics cannot be sent")))
      yield* Effect.flatMap(warnings, (lines) => lines.length > 0 ? Effect.void : Effect.fail("not yet")).pipe(
        Effect.retry({ schedule: Schedule.spaced(10), times: 2_000 }),
        Effect.orDie
      )
      expect((yield* warnings)[0]).toContain("the collector responded with status 400")
    }))
})

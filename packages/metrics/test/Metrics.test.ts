import { describe, expect, layer } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import * as ServerTest from "@stint/server-testing/ServerTest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { it } from "vitest"
import * as Metrics from "../src/index.ts"
import { EndpointLabels, MAX_ENDPOINTS, OTHER_ENDPOINTS } from "../src/MetricLabels.ts"

const platform = ServerTest.layer({
  stores: Metrics.layerStores.pipe(Layer.provideMerge(ServerTest.layerMemory)),
  routes: Metrics.layerPage
}).pipe(Layer.provide(Metrics.layerRegistry))

/** The samples on a page, by name and labels. */
const samplesOf = (text: string): ReadonlyMap<string, number> =>
  new Map(
    text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) => {
      const [, series = "", value = ""] = /^(\S+) (\S+)$/.exec(line) ?? []
      return [series, Number(value)]
    })
  )

layer(platform)("GET /metrics", (it) => {
  const scrape = Effect.gen(function*() {
    const { call } = yield* ServerTest.ServerTest
    const answer = yield* call("/metrics")
    expect(answer.status).toBe(200)
    expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8")
    return samplesOf(answer.text)
  })

  it.effect("counts the jobs of an endpoint by their outcome", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest.ServerTest
      const endpoint = yield* server.endpoint({ retry: { maxAttempts: 2, onError: true } })
      const worker = yield* endpoint.worker()
      const { id: first } = yield* endpoint.run(1)
      yield* worker.finish((yield* worker.next).id, "done")
      yield* endpoint.run(2)
      yield* worker.deliver((yield* worker.next).id, { error: "broken" })
      yield* worker.deliver((yield* worker.next).id, { error: "broken again" })
      const { id: cancelled } = yield* endpoint.run(3)
      yield* endpoint.cancel(cancelled)
      yield* endpoint.run(4)
      yield* endpoint.until(first, ({ status }) => status === "COMPLETED")

      const samples = yield* scrape
      const of = (name: string, labels = "") => samples.get(`${name}{endpoint="${endpoint.id}"${labels}}`)
      expect(of("stint_jobs_submitted_total")).toBe(4)
      expect(of("stint_jobs_ended_total", ",status=\"COMPLETED\"")).toBe(1)
      expect(of("stint_jobs_ended_total", ",status=\"FAILED\"")).toBe(1)
      expect(of("stint_jobs_ended_total", ",status=\"CANCELLED\"")).toBe(1)
      expect(of("stint_jobs_returned_total", ",reason=\"error\"")).toBe(1)
      expect(of("stint_job_wait_seconds_count")).toBe(3)
      expect(of("stint_job_wait_seconds_bucket", ",le=\"+Inf\"")).toBe(3)
      expect(of("stint_job_execution_seconds_count")).toBe(2)
      expect(of("stint_jobs_waiting")).toBe(1)
      expect(of("stint_jobs_running")).toBe(0)
      expect(of("stint_oldest_job_wait_seconds")).toBeGreaterThanOrEqual(0)
      expect(of("stint_workers", ",state=\"idle\"")).toBe(1)
      expect(samples.get("stint_store_operation_seconds_count{operation=\"insert\"}")).toBeGreaterThanOrEqual(4)
      expect(samples.get("process_resident_memory_bytes")).toBeGreaterThan(1e6)
    }))

  it.effect("measures the event loop delay after the first scrape", () =>
    Effect.gen(function*() {
      const delay = Effect.map(scrape, (samples) => samples.get("stint_event_loop_delay_seconds{percentile=\"99\"}"))
      yield* delay
      expect(yield* Effect.repeat(delay, { until: (seconds) => seconds !== undefined })).toBeGreaterThanOrEqual(0)
    }))

  it.effect("drops the gauges of a deleted endpoint", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest.ServerTest
      const { id } = yield* server.endpoint()
      const series = `stint_jobs_waiting{endpoint="${id}"}`
      expect((yield* scrape).has(series)).toBe(true)
      yield* server.call(`/api/v1/endpoints/${id}`, { method: "DELETE" })
      expect((yield* scrape).has(series)).toBe(false)
    }))

  it.effect("requires a key that can read the jobs of all endpoints", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest.ServerTest
      const one = yield* endpoint()
      const statusWith = Effect.fnUntraced(function*(body: object) {
        const created = yield* call("/api/v1/keys", { json: { name: "prometheus", ...body } })
        expect(created).toMatchObject({ status: 201 })
        const { secret } = created.json as { readonly secret: string }
        return (yield* call("/metrics", { authorization: `Bearer ${secret}` })).status
      })
      expect(yield* statusWith({ scopes: ["jobs:read"], endpoints: "all" })).toBe(200)
      expect(yield* statusWith({ scopes: ["jobs:submit"], endpoints: "all" })).toBe(403)
      expect(yield* statusWith({ scopes: ["jobs:read"], endpoints: [one.id] })).toBe(403)
      const refused = yield* call("/metrics", { authorization: null })
      expect(refused.status).toBe(401)
      expect(refused.text).not.toContain("stint_")
    }))
})

describe("labels of endpoints", () => {
  it("are bounded in number: further endpoints share one", () => {
    const labels = new EndpointLabels()
    const of = (n: number) => labels.of(EndpointId.make(`e${n}`))
    for (let n = 0; n < MAX_ENDPOINTS; n++) expect(of(n)).toBe(`e${n}`)
    expect(of(MAX_ENDPOINTS)).toBe(OTHER_ENDPOINTS)
    expect(of(0)).toBe("e0")
  })
})

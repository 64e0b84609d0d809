/**
 * Prometheus' own tools check the page, and the alerts in the documentation.
 */
import { beforeEach, describe, expect, layer } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { StartObserver } from "@stint/queue/WorkerStarts"
import * as ServerTest from "@stint/server-testing/ServerTest"
import { CommitObserver } from "@stint/store/CommitObserver"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { spawnSync } from "node:child_process"
import { resolve } from "node:path"
import { it } from "vitest"
import * as Metrics from "../src/index.ts"

const ALERTS = resolve(import.meta.dirname, "../../../docs/operations/alerts.yml")

const promtool = (args: ReadonlyArray<string>, input = "") => {
  const { error, status, stderr, stdout } = spawnSync("promtool", args, { encoding: "utf8", input })
  return { missing: error?.message, status, output: stdout + stderr }
}

const missing = promtool(["--version"]).missing

beforeEach(({ skip }) => skip(missing !== undefined, `promtool is not installed (Debian: prometheus): ${missing}`))

const platform = ServerTest.layer({
  stores: Metrics.layerStores.pipe(Layer.provideMerge(ServerTest.layerMemory)),
  routes: Metrics.layerPage
}).pipe(Layer.provideMerge(Metrics.layerObservers), Layer.provide(Metrics.layerRegistry))

layer(platform)("promtool", (it) => {
  it.effect("finds nothing wrong with the metrics of a platform that ran a job", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest.ServerTest
      expect(yield* server.works).toBe(true)
      const committed = yield* CommitObserver
      const started = yield* StartObserver
      for (const writes of [1, 3, 300]) committed(writes)
      const times = { requestedAt: 1_000, pulledAt: 3_000, createdAt: 3_100, calledAt: 3_500, setupAt: 3_600, readyAt: 9_600 }
      started({ endpoint: EndpointId.make("cold"), start: times })
      const { text } = yield* server.call("/metrics")
      for (const [part, seconds] of Object.entries({ pull: 2, create: 0.1, start: 0.4, setup: 6, prepare: 0.1, total: 8.6 })) {
        expect(text).toContain(`stint_cold_start_seconds_sum{endpoint="cold",part="${part}"} ${seconds}\n`)
      }
      expect(text).toContain("stint_store_commit_writes_bucket{le=\"4\"} 2\n")
      expect(text).toContain("stint_store_commit_writes_sum 304\n")
      expect(promtool(["check", "metrics"], text)).toEqual({ missing: undefined, status: 0, output: "" })
    }))
})

describe("the alerts in the documentation", () => {
  it("are valid", () => {
    expect(promtool(["check", "rules", ALERTS]).output).toContain("SUCCESS: 8 rules found")
  })

  it("name only metrics that the documentation lists", async () => {
    const { readFile } = await import("node:fs/promises")
    const rules = await readFile(ALERTS, "utf8")
    const page = await readFile(resolve(ALERTS, "../metrics.md"), "utf8")
    const names = new Set(rules.match(/stint_\w+/g))
    expect(names.size).toBeGreaterThan(5)
    for (const name of names) expect(page).toContain(name)
  })
})

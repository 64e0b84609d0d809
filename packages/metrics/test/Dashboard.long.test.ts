/**
 * A real Prometheus scrapes a platform, and runs every query of the dashboard in the documentation.
 */
import { beforeEach, expect, layer } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { StartObserver } from "@stint/queue/WorkerStarts"
import * as ServerTest from "@stint/server-testing/ServerTest"
import { CommitObserver } from "@stint/store/CommitObserver"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { spawn, spawnSync } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import * as Metrics from "../src/index.ts"

const DASHBOARD = resolve(import.meta.dirname, "../../../docs/operations/grafana.json")

const missing = spawnSync("prometheus", ["--version"]).error?.message

beforeEach(({ skip }) => skip(missing !== undefined, `prometheus is not installed (Debian: prometheus): ${missing}`))

const decodeDashboard = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({
  panels: Schema.Array(Schema.Struct({ title: Schema.String, targets: Schema.Array(Schema.Struct({ expr: Schema.String })) }))
})))

const decodeAnswer = Schema.decodeUnknownSync(Schema.Struct({
  status: Schema.String,
  error: Schema.optionalKey(Schema.String),
  data: Schema.optionalKey(Schema.Struct({ result: Schema.Array(Schema.Unknown) }))
}))

const platform = ServerTest.layer({
  stores: Metrics.layerStores.pipe(Layer.provideMerge(ServerTest.layerMemory)),
  routes: Metrics.layerPage
}).pipe(Layer.provideMerge(Metrics.layerObservers), Layer.provide(Metrics.layerRegistry))

/** Replaces Grafana's variables. */
const expand = (expr: string): string =>
  expr.replaceAll("$__rate_interval", "1m").replaceAll("$endpoint", ".*").replaceAll("$job", ".*")

/** Starts Prometheus on a free port. It scrapes the platform every second and runs queries. */
const startPrometheus = Effect.fnUntraced(function*(target: string) {
  const folder = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "stint-prometheus-"))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
  )
  const config = join(folder, "prometheus.yml")
  yield* Effect.promise(() =>
    writeFile(
      config,
      JSON.stringify({
        global: { scrape_interval: "1s", scrape_timeout: "1s" },
        scrape_configs: [{
          job_name: "stint",
          authorization: { credentials: ServerTest.ADMIN_KEY },
          static_configs: [{ targets: [new URL(target).host] }]
        }]
      })
    )
  )
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn("prometheus", [
        `--config.file=${config}`,
        `--storage.tsdb.path=${join(folder, "data")}`,
        "--web.listen-address=127.0.0.1:0",
        "--log.level=info"
      ], { stdio: ["ignore", "ignore", "pipe"] })
    ),
    (child) =>
      Effect.promise(() =>
        child.exitCode !== null ? Promise.resolve() : new Promise<void>((ended) => {
          child.once("exit", () => ended())
          child.kill("SIGKILL")
        })
      )
  )
  const base = yield* Effect.promise(() =>
    new Promise<string>((found, failed) => {
      let output = ""
      child.stderr.on("data", (data: Buffer) => {
        output += data.toString()
        const address = /address=(127\.0\.0\.1:[1-9]\d*)/.exec(output)?.[1]
        if (address !== undefined) found(`http://${address}`)
      })
      child.once("exit", () => failed(new Error(`prometheus ended:\n${output}`)))
    })
  )
  return (expr: string) =>
    Effect.promise(async () => {
      const response = await fetch(`${base}/api/v1/query?${new URLSearchParams({ query: expr }).toString()}`)
      return decodeAnswer(await response.json())
    })
})

layer(platform, { excludeTestServices: true })("the dashboard in the documentation", (it) => {
  it.effect("has queries that a real Prometheus answers with the platform's values", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest.ServerTest
      const endpoint = yield* server.endpoint({ retry: { maxAttempts: 2, onError: true } })
      const worker = yield* endpoint.worker()
      // The store in memory commits nothing, and no pool starts the worker.
      const committed = yield* CommitObserver
      const started = yield* StartObserver
      const query = yield* startPrometheus(server.baseUrl)
      const { panels } = decodeDashboard(yield* Effect.promise(() => readFile(DASHBOARD, "utf8")))
      const queries = panels.flatMap(({ targets, title }) => targets.map(({ expr }) => ({ title, expr: expand(expr) })))
      expect(queries.length).toBeGreaterThan(15)
      // There are no webhooks or store failures here, so their queries must be valid, but can have no result.
      const isEmptyAllowed = (expr: string) => /stint_webhook_attempts|stint_store_failures/.test(expr)
      let open = queries
      const deadline = Date.now() + 90_000
      // A rate needs two scrapes with values.
      while (open.length > 0) {
        committed(3)
        started({
          endpoint: EndpointId.make(endpoint.id),
          start: { requestedAt: 0, createdAt: 10, calledAt: 300, readyAt: 310 }
        })
        yield* endpoint.run(1)
        yield* worker.deliver((yield* worker.next).id, { error: "broken" })
        yield* worker.finish((yield* worker.next).id, "done")
        const answers = yield* Effect.forEach(open, (one) => Effect.map(query(one.expr), (answer) => ({ one, answer })))
        for (const { answer, one } of answers) expect(answer.error, one.expr).toBeUndefined()
        open = answers.filter(({ answer, one }) => answer.data?.result.length === 0 && !isEmptyAllowed(one.expr)).map(({ one }) =>
          one
        )
        if (Date.now() > deadline) expect(open).toEqual([])
        yield* Effect.sleep(500)
      }
    }), 120_000)
})

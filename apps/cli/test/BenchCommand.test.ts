/**
 * `stint bench cold-start`: its figures, what it refuses to measure, and a measurement of a real platform.
 */
import { EndpointId } from "@stint/contract/Ids"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import * as ColdStarts from "../src/bench/ColdStarts.ts"
import { figureOf } from "../src/bench/Figures.ts"
import { format } from "../src/commands/BenchCommand.ts"
import { runCommand } from "./CommandInProcess.ts"
import { FIXTURES, PlatformProcess, stint } from "./PlatformProcess.ts"

const measured: ColdStarts.Measured = {
  endpoint: "hello",
  runs: [
    {
      request: 130.04,
      wait: 96,
      parts: [{ phase: "create", millis: 9 }, { phase: "start", millis: 84 }, { phase: "take", millis: 3 }],
      execution: 5,
      standby: false
    },
    {
      request: 1_100,
      wait: 1_050,
      parts: [
        { phase: "queue", millis: 2 },
        { phase: "pull", millis: 500 },
        { phase: "start", millis: 40 },
        { phase: "setup", millis: 508 }
      ],
      execution: 7,
      standby: true
    }
  ],
  bare: [40, 41, 45]
}

describe("the figures of cold starts", () => {
  it("are the median and the extremes, for both even and odd numbers of values", () => {
    expect(figureOf([3, 1, 2])).toEqual({ median: 2, min: 1, max: 3 })
    expect(figureOf([4, 1, 2, 10])).toEqual({ median: 3, min: 1, max: 10 })
    expect(figureOf([0.123])).toEqual({ median: 0.1, min: 0.1, max: 0.1 })
    expect(figureOf([])).toBeUndefined()
  })

  it("count a part that a run lacks as 0, and leave out parts that no run has", () => {
    const { parts, request, standbys } = ColdStarts.summaryOf(measured)
    expect(parts).toEqual({
      queue: { median: 1, min: 0, max: 2 },
      pull: { median: 250, min: 0, max: 500 },
      create: { median: 4.5, min: 0, max: 9 },
      start: { median: 62, min: 40, max: 84 },
      setup: { median: 254, min: 0, max: 508 },
      take: { median: 1.5, min: 0, max: 3 }
    })
    expect(request).toEqual({ median: 615, min: 130, max: 1_100 })
    expect(standbys).toBe(1)
  })

  it("are printed as a table with the bare program and the ratio to it", () => {
    const text = format(measured, ["node", "-e", "0"])
    expect(text).toContain("2 cold starts of hello, in milliseconds")
    expect(text).toMatch(/^pull +250 +0 +500 +until its image was on the machine$/m)
    expect(text).toMatch(/^setup +254 +0 +508 +its setup$/m)
    // In the order of the wait.
    expect(text).toMatch(/^queue [^]+^pull [^]+^create [^]+^start /m)
    expect(text).toMatch(/^bare +41 +40 +45 +node -e 0$/m)
    expect(text).toContain("A cold request takes 15.0 times as long as the bare program.")
    expect(text).toContain("Workers that started in a standby process: 1 of 2")
    expect(format({ ...measured, bare: [] }, [])).not.toContain("bare")
  })
})

const workers = { min: 0, max: 3, idleTimeoutMs: 5_000 }
const source = { type: "handler", file: "/a.ts" } as const

describe("an endpoint without cold starts", () => {
  it.each([
    [{ source: { type: "external" as const }, workers }, "The platform starts no workers of endpoint e."],
    [{ source, workers: { ...workers, max: 0 } }, "Endpoint e is paused."],
    [{ source, workers: { ...workers, min: 2 } }, "Endpoint e always has 2 or more workers, so no request starts one."],
    [{ source, workers }, undefined]
  ])("is refused with a remedy: %o", (endpoint, message) => {
    expect(ColdStarts.obstacleOf({ id: EndpointId.make("e"), ...endpoint })?.message).toBe(message)
  })

  it("is noticed by requests that find a running worker, and these requests do not count as cold starts", async () => {
    const zeros = { idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 }
    const job = { id: "j", status: "COMPLETED", delayTime: 1, executionTime: 1 }
    const counts = { made: 1, most: 3 }
    const explain = {
      reason: "ended",
      words: "It has ended.",
      workers: { max: 3, idle: 1, initializing: 0, running: 0, draining: 0, throttled: 0, unhealthy: 0 },
      attempts: counts,
      createdAt: 0,
      queuedAt: 0,
      wait: { millis: 1, words: "until a running worker took it", parts: [{ phase: "take", millis: 1 }] }
    }
    const answers: Readonly<Record<string, unknown>> = {
      "GET /api/v1/endpoints/e": { id: "e", source, createdAt: 0 },
      "GET /v2/e/health": { jobs: { completed: 0, failed: 0, inProgress: 0, inQueue: 0, retried: 0 }, workers: zeros },
      "POST /v2/e/run": { id: "j", status: "IN_QUEUE" },
      "GET /v2/e/status-sync/j": job,
      "GET /v2/e/status/j": { ...job, explain }
    }
    const server = createServer((request, response) => {
      const answer = answers[`${request.method} ${new URL(request.url ?? "", "http://a").pathname}`]
      response.writeHead(answer === undefined ? 500 : 200, { "content-type": "application/json" }).end(JSON.stringify(answer))
    })
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
    const env = { STINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, STINT_API_KEY: "sixteen-characters" }
    const { code, stderr, stdout } = await runCommand(["bench", "cold-start", "e", "--runs", "2", "--against", ""], { env })
    await new Promise((closed) => server.close(closed))
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" })
    expect(stderr).toContain("3 requests to e found a running worker.")
  })

  it("is refused for an impossible number of runs and a program that fails", async () => {
    const env = { STINT_URL: "http://127.0.0.1:1", STINT_API_KEY: "sixteen-characters" }
    for (const runs of ["0", "1001"]) {
      expect((await runCommand(["bench", "cold-start", "e", "--runs", runs], { env })).stderr).toContain("1 to 1000")
    }
  })
})

it("measures each request to a real platform as a cold start whose parts add up to its wait", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stint-bench-"))
  const config = join(folder, "stint.config.ts")
  const handler = JSON.stringify(join(FIXTURES, "loading.ts"))
  await writeFile(config, `export default { endpoints: { cold: { handler: ${handler}, workers: { idleTimeout: 0 } } } }`)
  await using platform = await PlatformProcess.create(["serve", "--config", config])
  const { code, stderr, stdout } = await stint(platform, ["bench", "cold-start", "cold", "--runs", "2", "--json"])
  expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" })
  const { bare, endpoint, runs, summary } = JSON.parse(stdout) as
    & ColdStarts.Measured
    & { readonly summary: ColdStarts.Summary }
  expect(endpoint).toBe("cold")
  expect(runs).toHaveLength(2)
  for (const { parts, request, wait } of runs) {
    expect(parts.reduce((sum, { millis }) => sum + millis, 0)).toBe(wait)
    expect(request).toBeGreaterThanOrEqual(wait)
    expect(parts.find(({ phase }) => phase === "setup")?.millis).toBeGreaterThan(500)
  }
  expect(bare).toHaveLength(2)
  expect(summary.bare?.min).toBeGreaterThan(0)
  expect(summary.parts.setup?.min).toBeGreaterThan(500)
  const failing = await stint(platform, ["bench", "cold-start", "cold", "--runs", "1", "--against", "node -e process.exit(3)"])
  expect(failing.code).toBe(1)
  expect(failing.stderr).toContain("The program of --against ended with code 3")
  const simulated = await stint(platform, ["simulate", "cold", "--idle-timeout", "60s", "--json"])
  expect({ code: simulated.code, stderr: simulated.stderr }).toEqual({ code: 0, stderr: "" })
  const { coldStart, jobs, rows } = JSON.parse(simulated.stdout)
  // The second measurement fails before its job.
  expect({ jobs, measuredJobs: coldStart.measuredJobs, rows: rows.length }).toEqual({ jobs: 2, measuredJobs: 2, rows: 2 })
  expect(coldStart.millis).toBeGreaterThan(500)
  expect(rows.map(({ starts }: { readonly starts: number }) => starts)).toEqual([2, 1])
  await rm(folder, { recursive: true, force: true })
}, 120_000)

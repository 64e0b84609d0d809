/**
 * `stint simulate`: the traffic that it reads, other loads, the compared settings, and what it refuses. BenchCommand.test.ts runs it on a real platform.
 */
import { SeededRandom } from "@stint/store-testing"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "vitest"
import * as Traffic from "../src/simulate/Traffic.ts"
import { type Finished, runCommand } from "./CommandInProcess.ts"

describe("traffic at another load", () => {
  it.each([0.1, 0.5, 1, 1.7, 3, 4.9])("%d has the requested number of jobs, in order and in the same period", (load) => {
    const random = SeededRandom.seededRandom(1)
    const list = Array.from({ length: 200 }, () => ({ at: Math.floor(random() * 10_000), duration: Math.floor(random() * 50) }))
      .toSorted((one, other) => one.at - other.at)
    const others = Traffic.atLoad(list, load)
    expect(others.length).toBe(Math.floor(load * 200))
    expect(others).toEqual(others.toSorted((one, other) => one.at - other.at))
    expect(others[0]?.at).toBeGreaterThanOrEqual(list[0]?.at ?? Infinity)
    expect(others.at(-1)?.at).toBeLessThanOrEqual(list.at(-1)?.at ?? -1)
  })

  it("spreads the copies of a job over the time until the next one", () => {
    const list = [{ at: 0, duration: 5 }, { at: 100, duration: 7 }]
    expect(Traffic.atLoad(list, 1)).toEqual(list)
    expect(Traffic.atLoad(list, 2).map(({ at }) => at)).toEqual([0, 50, 100, 100])
    expect(Traffic.atLoad(list, 0.5)).toEqual([{ at: 100, duration: 7 }])
  })
})

/** Ten jobs, one every 30 s, of 1 s each, in two pages. Each started a worker, which took 2 s. The last one has not ended. */
const DAY = Date.UTC(2026, 10, 27)
const job = (n: number) => ({
  id: `j${n}`,
  status: n === 9 ? "IN_PROGRESS" : "COMPLETED",
  createdAt: DAY + n * 30_000,
  ...(n === 9 ? {} : { delayTime: 2_010, executionTime: 1_000, finishedAt: DAY + n * 30_000 + 3_010 }),
  attempt: 1,
  priority: 0,
  tags: []
})
const explain = {
  reason: "ended",
  words: "It has ended.",
  workers: { max: 3, idle: 0, initializing: 0, running: 0, draining: 0, throttled: 0, unhealthy: 0 },
  attempts: { made: 1, most: 3 },
  createdAt: 0,
  queuedAt: 0,
  wait: {
    millis: 2_010,
    words: "",
    parts: [{ phase: "queue", millis: 10 }, { phase: "create", millis: 300 }, { phase: "start", millis: 1_700 }]
  }
}

interface Answers {
  readonly max?: number
  readonly jobs?: ReadonlyArray<ReturnType<typeof job>>
  readonly explain?: object
}

/** Runs the command against a platform that has only these answers. */
const simulate = async (
  args: ReadonlyArray<string>,
  answers: Answers = {}
): Promise<Finished & { readonly queries: ReadonlyArray<string> }> => {
  const jobs = answers.jobs ?? Array.from({ length: 10 }, (_, n) => job(9 - n))
  const queries: Array<string> = []
  const answer = ({ pathname, searchParams }: URL): object | undefined => {
    if (pathname === "/api/v1/endpoints/e") {
      const workers = { min: 0, max: answers.max ?? 3, idleTimeoutMs: 5_000 }
      return {
        id: "e",
        source: { type: "handler", file: "/a.ts" },
        createdAt: 0,
        workers,
        scaler: { type: "QUEUE_DELAY", value: 4 }
      }
    }
    if (pathname === "/v2/e/requests") {
      queries.push(searchParams.toString())
      const isSecond = searchParams.has("cursor")
      return { requests: isSecond ? jobs.slice(6) : jobs.slice(0, 6), cursor: isSecond || jobs.length === 0 ? null : "second" }
    }
    return /\/status\/j/.test(pathname)
      ? { id: "j", status: "COMPLETED", delayTime: 1, executionTime: 1, explain: answers.explain ?? explain }
      : undefined
  }
  const server = createServer((request, response) => {
    const found = answer(new URL(request.url ?? "", "http://a"))
    response.writeHead(found === undefined ? 500 : 200, { "content-type": "application/json" }).end(JSON.stringify(found ?? {}))
  })
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
  const env = { STINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, STINT_API_KEY: "sixteen-characters" }
  try {
    return { ...await runCommand(["simulate", "e", ...args], { env }), queries }
  } finally {
    await new Promise((closed) => server.close(closed))
  }
}

describe("stint simulate", () => {
  it("compares the present settings with each combination, and reads every page", async () => {
    const result = await simulate([
      "--since",
      "2026-11-27",
      "--idle-timeout",
      "5s",
      "--idle-timeout",
      "60s",
      "--workers-min",
      "0",
      "--json"
    ])
    expect({ code: result.code, stderr: result.stderr }).toEqual({ code: 0, stderr: "" })
    expect(result.queries).toHaveLength(2)
    const simulated = JSON.parse(result.stdout)
    expect(simulated).toMatchObject({
      endpoint: "e",
      jobs: 9,
      from: DAY,
      to: DAY + 8 * 30_000,
      isCut: false,
      coldStart: { millis: 2_000, measuredJobs: 9 },
      executionMillis: 9_000,
      // Each job starts a worker and stops it after 5 s of idling; with 60 s, one worker runs all jobs.
      rows: [
        {
          isPresent: true,
          limits: { min: 0, max: 3, idleTimeoutMs: 5_000 },
          starts: 9,
          peak: 1,
          workerMillis: 9 * 8_000,
          waits: { p50: 2_000, p99: 2_000, max: 2_000 }
        },
        {
          isPresent: false,
          limits: { min: 0, max: 3, idleTimeoutMs: 60_000 },
          starts: 1,
          peak: 1,
          workerMillis: 2_000 + 1_000 + 8 * 30_000 - 2_000 + 60_000,
          waits: { p50: 0, max: 2_000 }
        }
      ],
      optimum: { starts: 9, workerMillis: 9 * 3_000 }
    })
    expect(simulated.rows).toHaveLength(2)
  })

  it("prints a table for people, with the times in UTC", async () => {
    const { stdout } = await simulate(["--load", "2", "--cold-start", "10s", "--jobs-per-worker", "1"])
    expect(stdout).toContain(
      "9 jobs of e from 2026-11-27 00:00 to 2026-11-27 00:04 UTC, at 2 times their number\nA cold start takes 10.0 s.\n"
    )
    expect(stdout).toMatch(/^now: min 0, max 3, idle 5 s, another after 4 s +\d+ /m)
    expect(stdout).toMatch(/^min 0, max 3, idle 5 s, one for 1 jobs +\d+ /m)
    expect(stdout).toMatch(/^optimum, knows all jobs +18 +0 s/m)
  })

  it("simulates another maximum while the endpoint is paused", async () => {
    const { stdout } = await simulate(["--workers-max", "1", "--json"], { max: 0 })
    expect(JSON.parse(stdout).rows).toMatchObject([{ isPresent: false, limits: { max: 1 } }])
  })

  it.each([
    [["--cold-start", "1s"], { jobs: [] }, "No job of endpoint e ended in this period."],
    [
      [],
      { explain: { ...explain, wait: { ...explain.wait, parts: [{ phase: "take", millis: 1 }] } } },
      "Give the time, for example --cold-start 10s"
    ],
    [[], { max: 0 }, "Endpoint e is paused, so its jobs would wait forever."],
    [
      Array.from({ length: 70 }, (_, n) => ["--workers-max", String(n + 4)]).flat(),
      {},
      "71 combinations of settings are more than 64."
    ],
    [["--load", "30000", "--cold-start", "1s"], {}, "270000 jobs are more than 200000."],
    [["--load", "1e12", "--cold-start", "1s"], {}, "9000000000000 jobs are more than 200000."],
    [["--scale-after", "0s"], {}, "An endpoint cannot have these settings: min 0, max 3, idle 5 s, another after 0 s."],
    [["--idle-timeout", "2h"], {}, "An idle timeout is at most 1h"],
    [["--jobs-per-worker", "0.5"], {}, "--jobs-per-worker 1 to 100000"],
    [["--load", "0"], {}, "a number above 0"],
    [["--workers-max", "0"], {}, "1 to 10000"]
  ])("%j is refused with a remedy", async (args, answers, text) => {
    const { code, stderr, stdout } = await simulate(args, answers)
    expect({ code: code === 0, stdout }).toEqual({ code: false, stdout: "" })
    expect(stderr).toContain(text)
  })
})

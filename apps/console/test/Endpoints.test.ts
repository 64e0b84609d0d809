import type { EndpointOverview } from "@stint/contract/OverviewApi"
import { execFileSync } from "node:child_process"
import { describe, expect, it } from "vitest"
import { problemOf, queryOf } from "../src/api/Api.ts"
import { permits } from "../src/api/Permissions.ts"
import { healthOf, rankEndpoints } from "../src/endpoints/EndpointHealth.ts"
import { checkJson } from "../src/endpoints/JsonCheck.ts"
import { statusSnippet, submitSnippet } from "../src/endpoints/Snippets.ts"
import { count, duration, percent, relative } from "../src/format/Format.ts"
import { pages } from "../src/pages/Registry.ts"

const NOW = 1_000_000

const endpoint = (over: Partial<EndpointOverview> = {}): EndpointOverview => ({
  id: "hello",
  source: "handler",
  jobs: { waiting: 0, delayed: 0, running: 0, completed: 0, failed: 0 },
  workers: { max: 3, idle: 0, initializing: 0, running: 0, draining: 0, throttled: 0, unhealthy: 0 },
  ...over
})

const jobs = (over: Partial<EndpointOverview["jobs"]>) => ({ ...endpoint().jobs, ...over })
const workers = (over: Partial<EndpointOverview["workers"]>) => ({ ...endpoint().workers, ...over })

describe("the health of an endpoint", () => {
  it("is bad when jobs cannot run, and says why", () => {
    const oldestQueuedAt = NOW - 5_000
    const failing = endpoint({
      jobs: jobs({ waiting: 2 }),
      workers: workers({ unhealthy: 1 }),
      problem: "Cannot find model.bin\nat line 3",
      oldestQueuedAt
    })
    expect(healthOf(failing, NOW)).toEqual({
      level: "bad",
      word: "Workers fail",
      reason: "Cannot find model.bin · 2 jobs wait, the oldest for 5.0 s"
    })
    expect(healthOf(endpoint({ jobs: jobs({ waiting: 1 }), workers: workers({ max: 0 }), oldestQueuedAt }), NOW)).toMatchObject({
      level: "bad",
      word: "Paused"
    })
    const external = { source: "external", jobs: jobs({ waiting: 1 }), workers: workers({ max: null }), oldestQueuedAt } as const
    expect(healthOf(endpoint(external), NOW)).toMatchObject({ level: "bad", word: "No worker" })
  })

  it("warns about old jobs and about many failures, but not about a few", () => {
    expect(healthOf(endpoint({ jobs: jobs({ waiting: 1 }), oldestQueuedAt: NOW - 60_000 }), NOW)).toMatchObject({
      level: "warn",
      reason: "1 job waits, the oldest for 60 s"
    })
    expect(healthOf(endpoint({ jobs: jobs({ completed: 45, failed: 5 }) }), NOW)).toMatchObject({
      level: "warn",
      reason: "5 jobs of 50 failed (10 %)"
    })
    for (const few of [jobs({ completed: 1, failed: 4 }), jobs({ completed: 46, failed: 5 })]) {
      expect(healthOf(endpoint({ jobs: few }), NOW).level).toBe("ok")
    }
  })

  it("is ok otherwise, and endpoints with problems come first in the list", () => {
    expect(healthOf(endpoint(), NOW)).toEqual({ level: "ok", word: "Idle", reason: undefined })
    expect(healthOf(endpoint({ workers: workers({ max: 0 }) }), NOW).level).toBe("ok")
    const ranked = rankEndpoints([
      endpoint({ id: "b" }),
      endpoint({ id: "a" }),
      endpoint({ id: "slow", jobs: jobs({ waiting: 1 }), oldestQueuedAt: 0 }),
      endpoint({ id: "z", workers: workers({ unhealthy: 1 }) })
    ], NOW)
    expect(ranked.map((one) => one.endpoint.id)).toEqual(["z", "slow", "a", "b"])
  })
})

describe("permissions", () => {
  const session = (scopes: ReadonlyArray<string>, endpoints: "all" | ReadonlyArray<string> = "all") => ({
    id: "k",
    name: "k",
    scopes,
    endpoints
  })

  it("follow the scopes and endpoints of the key", () => {
    const viewer = session(["jobs:read"], ["hello"])
    expect([permits(viewer, "read", "hello"), permits(viewer, "read", "other")]).toEqual([true, false])
    for (const action of ["submit", "manage", "deploy", "keys"] as const) {
      expect(permits(viewer, action, "hello"), action).toBe(false)
    }
    for (const action of ["read", "submit", "manage", "deploy", "keys"] as const) {
      expect(permits(session(["admin"]), action)).toBe(true)
    }
    expect([permits(session(["deploy"]), "read"), permits(session(["deploy"]), "deploy")]).toEqual([false, true])
    expect([permits(session(["jobs"]), "manage"), permits(session(["jobs"]), "keys")]).toEqual([true, false])
  })

  it("decide which pages the navigation lists", () => {
    const listed = (scopes: ReadonlyArray<string>) =>
      pages.filter(({ isListed }) => isListed?.(session(scopes))).map(({ title }) => title)
    expect(listed(["admin"])).toEqual(
      ["Home", "Jobs", "Errors", "Logs", "Playground", "Pipelines", "Schedules", "Workers", "Usage", "Keys", "Audit"]
    )
    expect(listed(["jobs:read"])).toEqual(["Home", "Jobs", "Errors", "Logs", "Pipelines", "Workers", "Usage"])
    expect(listed(["deploy"])).toEqual(["Home", "Schedules", "Workers", "Usage"])
    expect(listed(["jobs:submit"])).toEqual(["Home", "Playground"])
  })
})

describe("snippets", () => {
  const input = "{\"name\":\"O'Neil $HOME `x`\"}"

  it("quote the input for the shell, and never contain a key", () => {
    const line = submitSnippet("curl", "http://127.0.0.1:4600", "hello", input)
    const sent = execFileSync("sh", ["-c", line.replace(/^curl/, "printf '%s\\n'")], { env: { STINT_API_KEY: "secret" } })
      .toString().split("\n")
    expect(sent).toContain(`{"input":${input}}`)
    expect(sent).toContain("Authorization: Bearer secret")
    for (const language of ["TypeScript", "Python"] as const) {
      expect(submitSnippet(language, "http://127.0.0.1:4600", "hello", input)).toContain("STINT_API_KEY")
    }
    expect(statusSnippet("http://127.0.0.1:4600", "hello", "j")).toContain("'http://127.0.0.1:4600/v2/hello/status/j?explain'")
  })
})

describe("texts", () => {
  it("show durations, ages and numbers in a readable form", () => {
    expect([0, 999, 1_000, 9_949, 60_000, 119_500, 7_200_000, 172_800_000].map(duration)).toEqual(
      ["0 ms", "999 ms", "1.0 s", "9.9 s", "60 s", "2 min", "2 h", "2 d"]
    )
    expect([relative(NOW, NOW), relative(NOW - 4_000, NOW), relative(NOW + 90_000, NOW)]).toEqual([
      "just now",
      "4 s ago",
      "in 90 s"
    ])
    expect([count(9_999), count(12_345), percent(1, 1_000), percent(1, 8), percent(0, 0)]).toEqual([
      "9,999",
      "12.3k",
      "< 1 %",
      "13 %",
      "0 %"
    ])
  })

  it("say what is wrong with JSON, and on which line", () => {
    expect(checkJson("{}")).toEqual({ isValid: true })
    expect(checkJson(" ")).toMatchObject({ isValid: false })
    expect(checkJson("{\n \"a\": 1,\n}")).toMatchObject({ isValid: false, reason: expect.stringMatching(/^Line 3: /) })
  })

  it("take the problem from an error response, or the status if it contains none", () => {
    expect(problemOf(403, "{\"error\":\"no\",\"hint\":\"do\"}")).toMatchObject({ status: 403, message: "no", hint: "do" })
    expect(problemOf(502, "<html>")).toMatchObject({ status: 502, message: "The platform responded with status 502." })
    expect(queryOf({ a: 1, b: undefined, c: "", d: "x y" })).toBe("?a=1&d=x+y")
  })
})

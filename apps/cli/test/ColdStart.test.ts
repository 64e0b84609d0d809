/**
 * What a job's wait was spent on, with a real platform and real workers.
 */
import { Explanation } from "@stint/contract/Explanation"
import * as Schema from "effect/Schema"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const folder = await mkdtemp(join(tmpdir(), "stint-cold-"))
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Each job is a cold start. */
const COLD = `export default { endpoints: { cold: { handler: ${
  JSON.stringify(join(FIXTURES, "slow.ts"))
}, workers: { idleTimeout: 0 } } } }`

const decodeExplained = Schema.decodeUnknownSync(Schema.Struct({ explain: Explanation }))

const decode = Schema.decodeUnknownSync(Schema.Struct({ delayTime: Schema.Int, explain: Explanation }))

it("breaks the wait for a cold start down into parts that add up, and shows them in `stint status`", async () => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
  const { id } = await platform.runSync("one", {})
  const { delayTime, explain: { wait } } = decode((await platform.request("GET", `/v2/one/status/${id}?explain`)).body)
  expect(wait?.millis).toBe(delayTime)
  expect(wait?.unknown).toBeUndefined()
  const parts = wait?.parts ?? []
  expect(parts.reduce((sum, { millis }) => sum + millis, 0)).toBe(wait?.millis)
  expect(parts.map(({ phase }) => phase)).toContain("start")
  const { stdout } = await stint(platform, ["status", "one", id])
  expect(stdout).toContain(`waited   ${wait?.millis} ms: ${wait?.words}\n`)
  expect(stdout).not.toContain("why ")

  // The metrics measure the same start, and how many writes shared a transaction.
  const response = await fetch(`${platform.url}/metrics`, { headers: { authorization: `Bearer ${platform.key}` } })
  const page = await response.text()
  const value = (series: string) => Number(page.split("\n").find((line) => line.startsWith(`${series} `))?.split(" ")[1])
  const start = (part: string, of: string) => value(`stint_cold_start_seconds_${of}{endpoint="one",part="${part}"}`)
  for (const part of ["create", "start", "prepare", "total"]) expect(start(part, "count"), part).toBe(1)
  expect(start("start", "sum")).toBeGreaterThan(0)
  const sum = start("create", "sum") + start("start", "sum") + start("prepare", "sum")
  expect(start("total", "sum")).toBeCloseTo(sum, 6)
  expect(page).not.toContain(`part="pull"`)
  expect(value("stint_store_commit_writes_count")).toBeGreaterThan(0)
  expect(value("stint_store_commit_writes_sum")).toBeGreaterThanOrEqual(value("stint_store_commit_writes_count"))
}, 60_000)

it("counts the setup of a worker as a part of its own, and tells waiting jobs why a setup failed", async () => {
  const config = join(folder, "setup.config.ts")
  const handler = JSON.stringify(join(FIXTURES, "loading.ts"))
  const endpoints = ["", "fails", "hangs"].map((setup) => {
    const env = setup === ""
      ? ""
      : `, env: { SETUP: "${setup}", PLATFORM_SETUP_TIMEOUT: "${setup === "hangs" ? 600_000 : 60_000}" }`
    return `${setup === "" ? "works" : setup}: { handler: ${handler}${env} }`
  })
  await using platform = await PlatformProcess.create(
    ["serve", "--config", config],
    {},
    () => writeFile(config, `export default { endpoints: { ${endpoints.join(", ")} } }`)
  )
  const explained = async (endpoint: string, id: string) =>
    decodeExplained((await platform.request("GET", `/v2/${endpoint}/status/${id}?explain`)).body).explain

  const { id, output } = await platform.runSync("works", {})
  expect(output).toBe("tiny")
  const { wait } = await explained("works", id)
  const setup = wait?.parts.find(({ phase }) => phase === "setup")
  expect(setup?.millis).toBeGreaterThan(500)
  expect(wait?.words).toContain(`${setup?.millis} ms for its setup`)
  expect((await stint(platform, ["status", "works", id])).stdout).toContain(`${setup?.millis} ms for its setup`)

  const failing = await platform.run("fails", {})
  const cause = await until("the reason", async () => {
    const found = await explained("fails", failing)
    // The worker's last lines, which are known once it has exited.
    return found.cause?.includes("reading /models/tiny") === true ? found : undefined
  }, 60_000)
  expect(cause.reason).toBe("failing")
  expect(cause.words).toContain("is unhealthy: its setup failed: the model /models/tiny is damaged")
  // Not shown while the next worker starts.
  await until("the reason on the command line", async () => {
    const { stdout } = await stint(platform, ["status", "fails", failing, "--explain"])
    return stdout.includes("the model /models/tiny is damaged") ? stdout : undefined
  }, 60_000)

  const hanging = await platform.run("hangs", {})
  const words = await until("the setup to run", async () => {
    const found = await explained("hangs", hanging)
    return found.words.includes("Its setup has run for") ? found.words : undefined
  }, 60_000)
  expect(words).toMatch(/1 worker is starting, the oldest for .+\. Its setup has run for .+ of at most 10 min\.$/)
}, 120_000)

it("starts a worker in a standby process with STINT_SPARE_WORKERS, and says so in the job's explanation", async () => {
  const config = join(folder, "stint.config.ts")
  await using platform = await PlatformProcess.create(
    ["serve", "--config", config],
    { STINT_SPARE_WORKERS: "1" },
    () => writeFile(config, COLD)
  )
  // The first starts happen before the handler is bundled and the standby process waits.
  const words = await until("a start in a standby process", async () => {
    const { id } = await platform.runSync("cold", {})
    const { explain: { wait } } = decode((await platform.request("GET", `/v2/cold/status/${id}?explain`)).body)
    return wait?.standby === true ? wait.words : undefined
  }, 60_000)
  expect(words).toContain("a standby process became the worker")
}, 120_000)

/**
 * A platform with a PostgreSQL database (docs/operations/many-nodes.md), with a real database and real processes.
 */
import { missing, startCluster, type TestCluster } from "@stint/store-postgres/testing"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { runCommand } from "./CommandInProcess.ts"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]

/** How long a state may take to appear on a busy machine. Milliseconds. */
const LIMIT = 180_000

describe.skipIf(missing !== undefined)(missing ?? "a platform with PostgreSQL", () => {
  let cluster: TestCluster
  beforeAll(async () => {
    cluster = await startCluster({ fsync: true })
  }, LIMIT)
  afterAll(() => cluster?.stop(), LIMIT)

  const settings = () => ({ STINT_DATABASE: cluster.url("postgres") })

  it("runs, streams, cancels and retries jobs, and still has them after kill -9", async () => {
    await using platform = await PlatformProcess.create(CONFIG, settings())
    expect(platform.output).toContain("Database           localhost/postgres")
    expect(await platform.runSync("slow", { n: 1 })).toMatchObject({ status: "COMPLETED", output: { n: 1 } })
    const cancelled = await platform.run("joined", {})
    expect((await platform.request("POST", `/v2/joined/cancel/${cancelled}`)).body).toMatchObject({ status: "CANCELLED" })
    const failed = await platform.run("crashing", { crash: "abort" })
    expect(await platform.ended("crashing", failed)).toMatchObject({ status: "FAILED" })
    expect((await platform.request("POST", `/v2/crashing/retry/${failed}`)).body).toMatchObject({ status: "IN_QUEUE" })
    const waiting = await platform.run("joined", { n: 2 })
    await platform.end("SIGKILL")
    await platform.start()
    expect(await platform.job("joined", waiting)).toMatchObject({ status: "IN_QUEUE" })
    expect(await platform.job("joined", cancelled)).toMatchObject({ status: "CANCELLED" })
    expect(await platform.ended("crashing", failed)).toMatchObject({ status: "FAILED" })
  }, LIMIT)

  it("holds jobs with the same concurrency key, and `stint doctor` checks the database", async () => {
    await using platform = await PlatformProcess.create(CONFIG, settings())
    const endpoint = { id: "keyed", source: { type: "external" }, concurrency: { key: "input.tenant", limit: 1 } }
    expect(await platform.request("POST", "/api/v1/endpoints", endpoint)).toMatchObject({ status: 201 })
    for (const tenant of ["a", "a", "b"]) await platform.run("keyed", { tenant })
    // A held job is not counted as waiting.
    expect((await platform.request("GET", "/v2/keyed/health")).body).toMatchObject({ jobs: { inQueue: 3 } })
    const { code, stdout } = await runCommand(["doctor", "--json"], { env: settings() })
    expect(JSON.parse(stdout).findings).toContainEqual(expect.objectContaining({ check: "notifications", state: "ok" }))
    expect(code).toBe(0)
    const text = await runCommand(["doctor"], { env: settings() })
    expect(text.stdout).toMatch(/^localhost\/postgres\nok +server +PostgreSQL/)
  }, LIMIT)

  it("refuses what the database does not support yet, with the reason and what to do instead", async () => {
    await using platform = await PlatformProcess.create(CONFIG, settings())
    const builds = await platform.request("PUT", "/api/v1/endpoints/joined/build-settings", {
      repository: "https://git.example.com/team/words.git"
    })
    expect(builds).toMatchObject({
      status: 409,
      body: { detail: "A platform with a PostgreSQL database does not build endpoints yet." }
    })
    expect(await platform.request("POST", "/api/v1/backup")).toMatchObject({
      status: 409,
      body: { hint: "Back up the database with its own tools: pg_dump, or a base backup." }
    })
  }, LIMIT)

  it(
    "responds with 503 and Retry-After while the database is away, keeps the result of a worker, and recovers by itself",
    async () => {
      await using platform = await PlatformProcess.create(CONFIG, settings())
      const log = join(platform.dataDir, "log")
      const id = await platform.run("one", { ms: 2_000, n: 3, log })
      await until(
        "the job to run",
        async () => (await platform.job("one", id)).status === "IN_PROGRESS" ? true : undefined,
        LIMIT
      )
      await cluster.ctl("-m", "immediate", "stop")
      const response = await fetch(`${platform.url}/v2/one/run`, {
        method: "POST",
        headers: { authorization: `Bearer ${platform.key}`, "content-type": "application/json" },
        body: JSON.stringify({ input: {} })
      })
      expect(response.status).toBe(503)
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0)
      await until("the outage in the log", () => platform.output.includes("cannot be used") ? true : undefined, LIMIT)
      await cluster.ctl("start")
      const job = await until("the platform to answer again", async () => {
        const { body, status } = await platform.request("GET", `/v2/one/status/${id}`)
        return status === 200 && (body as { readonly status: string }).status === "COMPLETED" ? body : undefined
      }, LIMIT)
      expect(job).toMatchObject({ status: "COMPLETED", output: { n: 3 } })
      expect(await platform.runSync("one", { n: 4 })).toMatchObject({ status: "COMPLETED" })
    },
    LIMIT
  )

  it("does not start with an address that it cannot use, and does not print the password", async () => {
    const url = cluster.url("postgres").replace("stint@", "stint:hunter22@").replace("/postgres?", "/none?")
    const missingDatabase = await stint(undefined, ["serve"], {
      STINT_DATABASE: url,
      STINT_DATA_DIR: join(cluster.folder, "data-dir"),
      PORT: "0"
    })
    expect(missingDatabase.code).toBe(1)
    expect(missingDatabase.stderr).toContain("No connection to PostgreSQL at localhost/none")
    expect(missingDatabase.stderr + missingDatabase.stdout).not.toContain("hunter22")
    const refused = async (env: Readonly<Record<string, string>>) => {
      const { code, stderr } = await stint(undefined, ["serve"], {
        ...settings(),
        STINT_DATA_DIR: join(cluster.folder, "data-dir"),
        PORT: "0",
        ...env
      })
      expect(code).toBe(1)
      return stderr
    }
    expect(await refused({ STINT_PAYLOADS: "dir:/srv/payloads" })).toContain(
      "which other nodes with the same database cannot read"
    )
    expect(await refused({ STINT_DURABILITY: "D1" })).toContain("STINT_DURABILITY is D1, which has no effect")
    expect(await refused({ STINT_DATABASE: "mysql://db/stint" })).toContain("STINT_DATABASE is invalid")
  }, LIMIT)
})

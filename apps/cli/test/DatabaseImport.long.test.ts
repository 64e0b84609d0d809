/**
 * `stint database import` with real processes: killed by signal 9 while it copies, and moving a platform from SQLite to PostgreSQL
 * (docs/operations/move-to-postgresql.md).
 */
import { execute, missing, startCluster, type TestCluster } from "@stint/store-postgres/testing"
import * as Sqlite from "@stint/store-sqlite"
import { SeededRandom } from "@stint/store-testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execFileSync, spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { programFor } from "./BuiltCommand.ts"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "pipelines.config.ts")]

/** How long a state may take to appear on a busy machine. Milliseconds. */
const LIMIT = 180_000

/** How long a platform may take to reach a state on a busy machine. Milliseconds. */
const STATE = 120_000

/** The number of jobs in the import that is killed. */
const JOBS = 8_000

/** How often it is killed. */
const KILLS = 3

/** Writes a platform's file with ended jobs that have an input and an output. */
const writeJobs = async (file: string) => {
  await Effect.runPromise(Effect.scoped(Layer.build(Sqlite.layer({ file, durability: "D1" }))))
  const db = new DatabaseSync(file)
  db.exec(`
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ${JOBS})
    INSERT INTO jobs (seq, id, endpoint, status, low_priority, created_at, queued_at, expires_at, execution_timeout_ms, lease_ms, max_attempts,
      retention_ms, attempt, retries, worker, started_at, finished_at, chunks, drained, due_at, ttl_ms)
    SELECT n, 'job-' || (n * 7919 % ${JOBS}) || '-' || n, 'old', 'COMPLETED', 0, n, n, 61000 + n, 30000, 5000, 2, 9000, 1, 0, 'w', n, n, 0, 0, 9000 + n, 60000
    FROM n;
    INSERT INTO inputs (seq, input) SELECT seq, '{"n":' || seq || '}' FROM jobs;
    INSERT INTO outcomes (seq, output) SELECT seq, '"' || hex(randomblob(200)) || '"' FROM jobs;
  `)
  db.close()
}

describe.skipIf(missing !== undefined)(missing ?? "an import into PostgreSQL", () => {
  let cluster: TestCluster
  const folder = mkdtempSync(join(tmpdir(), "stint-import-"))
  beforeAll(async () => {
    cluster = await startCluster({ fsync: true })
    for (const name of ["killed", "moved"]) await execute(cluster.url("postgres"), `CREATE DATABASE ${name}`)
  }, LIMIT)
  afterAll(async () => {
    await cluster?.stop()
    rmSync(folder, { recursive: true, force: true })
  }, LIMIT)

  const seed = SeededRandom.runSeed()

  it(`continues after ${KILLS} kills by signal 9 at random moments, and copies every job once (seed ${seed})`, async () => {
    const dice = SeededRandom.seededRandom(seed)
    await writeJobs(join(folder, "stint.db"))
    const url = cluster.url("killed")
    const env = { STINT_DATABASE: url, STINT_DATA_DIR: folder }
    const reached: Array<number> = []
    for (let kill = 0; kill < KILLS; kill++) {
      const child = spawn(process.execPath, [await programFor({}), "database", "import"], {
        stdio: ["ignore", "ignore", "pipe"],
        env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env }
      })
      const percent = Math.floor(dice() * 9)
      let stderr = ""
      child.stderr.on("data", (data: Buffer) => (stderr += data.toString()))
      const ended = new Promise((done) => child.once("close", (code, signal) => done(signal ?? code)))
      await until(
        `${percent}0 % of the jobs`,
        () => new RegExp(`Copying jobs: (${percent}|[${percent}-9])0 %|Comparing jobs`).test(stderr) || undefined,
        LIMIT
      )
      await new Promise((next) => setTimeout(next, dice() * 40))
      child.kill("SIGKILL")
      expect(await ended).toBe("SIGKILL")
      reached.push(Number((await execute(url, "SELECT count(*)::int FROM stint.jobs"))[0]?.[0]))
      if (kill > 0) continue
      const refused = await stint(undefined, ["serve"], { ...env, STINT_DATA_DIR: join(folder, "node"), PORT: "0" })
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("has not finished. Run it again")])
    }
    expect(reached).toEqual(reached.toSorted((a, b) => a - b))
    expect(Math.max(...reached)).toBeGreaterThan(0)
    const { code, stderr, stdout } = await stint(undefined, ["database", "import", "--json"], env)
    expect([code, code === 0 ? "" : stderr]).toEqual([0, ""])
    const { tables } = JSON.parse(stdout) as {
      readonly tables: ReadonlyArray<{ readonly table: string; readonly rows: number; readonly changed: number }>
    }
    expect(tables.find(({ table }) => table === "jobs")).toMatchObject({
      rows: JOBS,
      changed: JOBS - (reached.at(-1) ?? 0),
      orphans: 0
    })
    expect(
      await execute(
        url,
        `SELECT (SELECT count(*)::int FROM stint.jobs), (SELECT count(DISTINCT seq)::int FROM stint.jobs), (SELECT count(*)::int FROM stint.ended),
           (SELECT sum(completed)::int FROM stint.tallies WHERE scope = 'endpoint')`
      )
    ).toEqual([[JOBS, JOBS, JOBS, JOBS]])
  }, 3 * LIMIT)

  it("moves a killed platform, which continues with every job, run, key and schedule", async () => {
    await using old = await PlatformProcess.create(CONFIG)
    const post = async (platform: PlatformProcess, path: string, body: unknown, key?: string) => {
      const response = await fetch(platform.url + path, {
        method: "POST",
        headers: {
          authorization: `Bearer ${key ?? platform.key}`,
          "content-type": "application/json",
          "idempotency-key": "order 17"
        },
        body: JSON.stringify(body)
      })
      return { status: response.status, body: await response.json() as { readonly id: string; readonly secret: string } }
    }
    const log = join(old.dataDir, "log")
    const endpoint = { id: "outside", source: { type: "external" }, leaseMs: 3_000 }
    expect(await old.request("POST", "/api/v1/endpoints", endpoint)).toMatchObject({ status: 201 })
    const secret = { value: "keep me" }
    expect((await old.request("PUT", "/api/v1/secrets/TOKEN", secret)).status).toBeLessThan(300)
    const team = await post(old, "/api/v1/keys", { name: "a team", scopes: ["jobs"], endpoints: ["outside", "slow"] })
    const leased = await post(old, "/v2/outside/run", { input: { n: 1 } }, team.body.secret)
    const queued = await old.run("outside", { n: 2 })
    const done = await old.runSync("slow", { n: 3 })
    const run = await old.run("napping", { log, ms: 20_000 })
    const workerKey = await old.workerKey("outside")
    const taken = await old.request("GET", "/v2/outside/job-take/ann", undefined, workerKey)
    expect(taken.body).toMatchObject({ id: leased.body.id })
    await old.request("PUT", "/api/v1/endpoints/slow/schedules/once", {
      at: new Date(Date.now() + 20_000).toISOString(),
      input: { n: 4 }
    })
    await until("the run to park", async () => {
      const { body } = await old.request("GET", `/v2/napping/status/${run}?explain=true`)
      return JSON.stringify(body).includes("\"parked\"") || undefined
    }, STATE)
    // A backup is imported while the platform runs, and the data folder after it has stopped.
    const archive = join(folder, "stint.tar")
    expect((await stint(old, ["backup", archive])).code).toBe(0)
    const copy = join(folder, "copy")
    mkdirSync(copy)
    execFileSync("tar", ["-xf", archive, "-C", copy])
    const env = { STINT_DATABASE: cluster.url("moved"), STINT_DATA_DIR: old.dataDir, XDG_CONFIG_HOME: old.configDir }
    const first = await stint(undefined, ["database", "import", "--from", copy], env)
    expect([first.code, first.stdout]).toEqual([0, expect.stringContaining("This was a backup")])
    const later = await old.run("outside", { n: 5 })
    await old.end("SIGKILL")

    const imported = await stint(undefined, ["database", "import"], env)
    expect([imported.code, imported.stderr]).toEqual([0, expect.not.stringContaining("ERROR")])
    await using moved = await PlatformProcess.create(CONFIG, env)
    expect(moved.key).toBe(old.key)
    renameSync(join(old.dataDir, "stint.db"), join(old.dataDir, "stint.db.imported"))
    const again = await stint(undefined, ["serve"], { ...env, STINT_DATABASE: "", PORT: "0" })
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("stint.db is missing")])
    expect(await moved.job("slow", done.id)).toMatchObject({ status: "COMPLETED", output: done.output })
    expect(await post(moved, "/v2/outside/run", { input: { n: 1 } }, team.body.secret)).toMatchObject({
      status: 200,
      body: { id: leased.body.id }
    })
    expect((await moved.request("GET", "/api/v1/secrets")).body).toMatchObject({ secrets: [{ name: "TOKEN" }] })
    // The key of an external worker stays valid, because the node has the same data folder.
    const seen: Array<string> = []
    await until("the queued jobs and the leased one", async () => {
      // A job that lost its worker runs alone on its next one.
      const { body, status } = await moved.request("GET", `/v2/outside/job-take/w-${seen.length}`, undefined, workerKey)
      if (status === 200) seen.push((body as { readonly id: string }).id)
      return seen.length === 3 || undefined
    }, STATE)
    expect(seen.toSorted()).toEqual([leased.body.id, queued, later].toSorted())
    expect(await moved.job("outside", leased.body.id)).toMatchObject({ retries: 1 })
    expect(await moved.ended("napping", run, STATE)).toMatchObject({ status: "COMPLETED" })
    expect(readFileSync(log, "utf8")).toBe("before#1\nafter#1\n")
    const fired = await until("the schedule", async () => {
      const { body } = await moved.request("GET", "/api/v1/jobs?query=endpoint:slow")
      const { jobs } = body as { readonly jobs: ReadonlyArray<{ readonly id: string }> }
      return jobs.length > 1 ? jobs : undefined
    }, STATE)
    expect(fired).toHaveLength(2)
    expect((await moved.request("GET", "/api/v1/endpoints/slow/schedules/once")).body).toMatchObject({
      last: { outcome: "submitted" }
    })
  }, 3 * LIMIT)
})

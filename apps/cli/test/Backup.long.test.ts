/**
 * A backup of a platform under load, restored elsewhere.
 */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]

/** Jobs per second. */
const RATE = 500

const folder = async (): Promise<AsyncDisposable & { readonly path: string }> => {
  const path = await mkdtemp(join(tmpdir(), "stint-backup-e2e-"))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

interface Acknowledged {
  readonly id: string
  readonly at: number
  /** How long the submission took. Milliseconds. */
  readonly took: number
  /** Whether the input is in the payload folder. */
  readonly isLarge: boolean
}

const submit = async (platform: PlatformProcess, n: number, size: number): Promise<Acknowledged> => {
  const started = performance.now()
  const id = await platform.run("joined", { n, pad: "x".repeat(size) })
  return { id, at: Date.now(), took: performance.now() - started, isLarge: size > 64 * 1024 }
}

/** Submits {@link RATE} jobs per second until it is stopped. Every fiftieth job has a large input. */
const load = (platform: PlatformProcess) => {
  const acknowledged: Array<Acknowledged> = []
  const running = new Set<Promise<void>>()
  let sent = 0
  const started = performance.now()
  const timer = setInterval(() => {
    const due = Math.floor((performance.now() - started) / 1_000 * RATE)
    while (sent < due && running.size < 100) {
      sent += 1
      const one = submit(platform, sent, sent % 50 === 0 ? 100 * 1024 : 200).then((job) => void acknowledged.push(job))
        .finally(() => running.delete(one))
      running.add(one)
    }
  }, 10)
  return {
    acknowledged,
    rate: () => acknowledged.length / ((performance.now() - started) / 1_000),
    stop: async () => {
      clearInterval(timer)
      await Promise.all(running)
    }
  }
}

const percentile = (values: ReadonlyArray<number>, part: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] ?? 0

describe("stint backup and stint restore", () => {
  it(
    "restores every job that was acknowledged before the moment of a backup, at 500 jobs per second, with keys and payloads",
    async () => {
      await using payloads = await folder()
      await using elsewhere = await folder()
      await using archives = await folder()
      const archive = join(archives.path, "stint.tar")
      await using platform = await PlatformProcess.create(CONFIG, {
        STINT_PAYLOADS: `dir:${payloads.path}`,
        STINT_PAYLOADS_THRESHOLD: "64 KiB"
      })
      const workerEnv = await platform.request("GET", "/api/v1/endpoints/joined/worker-env")
      // Enough pages that the copy takes longer than a few submissions.
      for (let n = 0; n < 16; n++) await Promise.all(Array.from({ length: 50 }, () => submit(platform, -1, 60 * 1024)))

      const jobs = load(platform)
      await until("load", () => jobs.acknowledged.length > 2 * RATE ? true : undefined, 60_000)
      const from = Date.now()
      const { code, stderr, stdout } = await stint(platform, ["backup", archive, "--json"])
      const end = Date.now()
      expect(stderr).toBe("")
      expect(code).toBe(0)
      const { bytes, moment: time } = JSON.parse(stdout) as { moment: string; bytes: number }
      const moment = Date.parse(time)
      await jobs.stop()
      await platform.end("SIGKILL")

      const during = jobs.acknowledged.filter(({ at }) => at >= from && at < end)
      const other = jobs.acknowledged.filter(({ at }) => at < from || at >= end)
      const describeTimes = (list: ReadonlyArray<Acknowledged>) =>
        `${list.length} submissions, p50 ${percentile(list.map(({ took }) => took), 0.5).toFixed(1)} ms, p99 ${
          percentile(list.map(({ took }) => took), 0.99).toFixed(1)
        } ms, max ${Math.max(...list.map(({ took }) => took)).toFixed(1)} ms`
      process.stdout.write(
        `${jobs.rate().toFixed(0)} jobs/s; ${(bytes / 1e6).toFixed(0)} MB in ${end - from} ms, moment after ${
          moment - from
        } ms\n` +
          `  during the backup: ${describeTimes(during)}\n  otherwise: ${describeTimes(other)}\n`
      )

      const settings = { STINT_PAYLOADS: `dir:${elsewhere.path}`, STINT_PAYLOADS_THRESHOLD: "64 KiB" }
      await using restored = await PlatformProcess.create(CONFIG, settings, async (dataDir) => {
        const restore = await stint(undefined, ["restore", archive], { ...settings, STINT_DATA_DIR: dataDir })
        expect(restore.stderr).toBe("")
        expect(restore.stdout).toContain(`Restored everything up to ${time}`)
      })
      // The new folder has no copy of the key, but the platform accepts it.
      restored.key = platform.key

      const missing: Array<Acknowledged> = []
      for (let start = 0; start < jobs.acknowledged.length; start += 50) {
        await Promise.all(
          jobs.acknowledged.slice(start, start + 50).map(async (job) => {
            const { status } = await restored.request("GET", `/v2/joined/status/${job.id}`)
            if (status === 404) missing.push(job)
            else expect(status).toBe(200)
          })
        )
      }
      expect(missing.filter(({ at }) => at < moment)).toEqual([])
      // The backup was taken under load: some jobs were acknowledged during the copy, and later ones are not in it.
      expect(jobs.acknowledged.filter(({ at }) => at >= from && at < moment).length).toBeGreaterThan(0)
      expect(missing.length).toBeGreaterThan(0)
      const large = jobs.acknowledged.filter(({ at, isLarge }) => isLarge && at < moment)
      expect(large.length).toBeGreaterThan(0)
      expect((await readdir(elsewhere.path, { recursive: true })).filter((name) => name.includes("input.")).length)
        .toBeGreaterThanOrEqual(large.length)

      // A worker of the original platform may take jobs from the restored one, and receives their inputs.
      const { PLATFORM_AI_API_KEY: key } = (workerEnv.body as { variables: Record<string, string> }).variables
      const taken = await fetch(`${restored.url}/v2/joined/job-take/w-1`, { headers: { authorization: key ?? "" } })
      expect(await taken.json()).toMatchObject({ id: expect.any(String), input: { n: -1 } })
      // Writes to the restored database survive, and its files are private.
      expect((await restored.request("POST", "/v2/joined/run", { input: 1 })).status).toBe(200)
      expect(await readFile(join(restored.dataDir, "worker-secret"), "utf8")).toBe(
        await readFile(join(platform.dataDir, "worker-secret"), "utf8")
      )
    },
    600_000
  )

  it("reports that it is not ready while running jobs finish after SIGTERM, and stays alive", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const id = await platform.run("one", { ms: 1_500 })
    await until("the job", async () => (await platform.job("one", id)).status === "IN_PROGRESS" ? true : undefined)
    expect((await platform.request("GET", "/readyz")).body).toEqual({ status: "ready" })
    const ended = platform.end("SIGTERM")
    await until("the shutdown", () => platform.output.includes("SIGTERM: no new jobs are started") ? true : undefined)
    expect(await platform.request("GET", "/readyz")).toMatchObject({
      status: 503,
      body: { error: "The platform is shutting down." }
    })
    expect(await platform.request("GET", "/healthz")).toEqual({ status: 200, body: { status: "alive" } })
    expect(await ended).toEqual({ code: 0, signal: null })
  }, 60_000)
})

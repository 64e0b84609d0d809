/**
 * A platform and a worker at half of their load, for as long as wanted (R15). Memory, descriptors and the database grow only until the first jobs reach
 * the end of their retention. The scenario returns what grows after that, so that Soak.long.test.ts can require nothing, and PlantedBugs.long.test.ts can
 * require that a planted bug is detected.
 *
 * ```
 *   full load: 32 callers make one call after another     half load: each caller pauses for as long as its last call took
 *   |--------------------------------------------------|--------------------------------|------------- measured ------------|
 *   0 s                                                10 s          a third of the time                                   end
 * ```
 *
 * Each call ends with the end of its job, so the load follows the speed of the machine, which other programs may use too, and no queue builds up.
 */
import { SeededRandom } from "@stint/store-testing"
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import type { ScenarioOptions, ScenarioResult } from "./FaultScenarios.ts"
import { pause } from "./FaultWorld.ts"
import { growthOf, levelOf, type Sample, slopeOf } from "./Growth.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"
import { receiveWebhooks } from "./WebhookReceiver.ts"

const CAPACITY_MILLIS = 10_000
const CALLERS = 32

/** A part of every input, 2 kB: jobs that stay in the database show soon. */
const TEXT = "x".repeat(2_000)

/** A job without a response or an end within this time counts as lost. Milliseconds. */
const LOST_AFTER = 60_000

const MIB = 2 ** 20

/**
 * In a shorter run, the number of stored jobs follows the rate of the calls, which changes while the machine and the compiled code warm up. Three times
 * the noise is then no growth: at most a third of what each planted leak adds in a run of a minute.
 */
const WHOLE_RUN_MINUTES = 10
const SHORT_RUN_NOISE = 3

/** What is measured, and by how much it may seem to grow although it does not. */
const MEASURES = {
  "memory of the platform": { unit: MIB, noise: (level: number) => Math.max(2 * MIB, 0.03 * level) },
  "memory of the worker": { unit: MIB, noise: (level: number) => Math.max(2 * MIB, 0.03 * level) },
  "descriptors of the platform": { unit: 1, noise: () => 6 },
  "descriptors of the worker": { unit: 1, noise: () => 6 },
  "used size of the database": { unit: MIB, noise: (level: number) => Math.max(MIB / 2, 0.1 * level) },
  "size of its WAL": { unit: MIB, noise: (level: number) => Math.max(MIB, 0.1 * level) }
}

type Measure = keyof typeof MEASURES

const isMeasure = (name: string): name is Measure => name in MEASURES

/** The memory that a process of fixtures/memoryProbe.ts keeps after a garbage collection, in bytes. */
const keptBy = async (folder: string, pid: number): Promise<number> =>
  JSON.parse(await readFile(join(folder, `${pid}.json`), "utf8")).kept

const descriptorsOf = async (pid: number): Promise<number> => (await readdir(`/proc/${pid}/fd`)).length

const sizeOf = async (folder: string, file: string): Promise<number> => (await stat(join(folder, file))).size

/**
 * The bytes of a SQLite database without its free pages, from the header on its first page, which may still be in the WAL
 * (https://www.sqlite.org/fileformat.html). The file keeps up to a quarter of free pages, so its size follows the largest number of jobs at a time.
 */
const usedBytesOf = async (file: string): Promise<number> => {
  const wal = await readFile(`${file}-wal`)
  let first = (await readFile(file)).subarray(0, 100)
  const pageSize = wal.readUInt32BE(8)
  const salts = wal.subarray(16, 24)
  for (let frame = 32; frame + 24 + pageSize <= wal.length; frame += 24 + pageSize) {
    // Frames with other salts are from before the last checkpoint.
    if (!wal.subarray(frame + 8, frame + 16).equals(salts)) break
    if (wal.readUInt32BE(frame) === 1) first = wal.subarray(frame + 24, frame + 124)
  }
  return pageSize * (first.readUInt32BE(28) - first.readUInt32BE(36))
}

/** The worker: the only child of the platform that runs for long and is measured. */
const workerOf = async (folder: string, platform: number): Promise<number | undefined> => {
  const children = (await readFile(`/proc/${platform}/task/${platform}/children`, "utf8")).split(" ").filter((pid) => pid !== "")
  const measured = await readdir(folder)
  return children.map(Number).find((pid) => measured.includes(`${pid}.json`))
}

/** Runs a platform at half load for this many minutes, after a measurement of its capacity. */
export const soak = async (
  { env, minutes, seed = SeededRandom.runSeed() }: ScenarioOptions & { readonly minutes: number }
): Promise<ScenarioResult & { readonly report: string }> => {
  const millis = minutes * 60_000
  const every = Math.min(10_000, Math.max(500, millis / 120))
  const probes = await mkdtemp(join(tmpdir(), "stint-soak-"))
  await using hooks = await receiveWebhooks()
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "soak.config.ts")], {
    ...env,
    NODE_OPTIONS: `${env?.["NODE_OPTIONS"] ?? ""} --import=${
      pathToFileURL(join(FIXTURES, "memoryProbe.ts")).href
    }?folder=${probes}&every=${every}`,
    SOAK_RETENTION: String(Math.min(60_000, Math.max(3_000, millis / 20))),
    STINT_WEBHOOKS_ALLOW: "127.0.0.1",
    PLATFORM_LOG_LEVEL: "WARN"
  })
  const random = SeededRandom.seededRandom(seed)
  const counts = { jobs: 0, lost: 0, cancels: 0, "stale writes refused": 0, "chunks read": 0, retried: 0 }

  const isDone = ({ output, status }: { readonly output?: unknown; readonly status: string }, chunks: number): boolean =>
    status === "COMPLETED" && Array.isArray(output) && output.length === chunks
  const waitFor = async (n: number, fails = 0): Promise<void> => {
    if (!isDone(await platform.runSync("soak", { n, fails, text: TEXT }), 1)) counts.lost += 1
  }
  /** Waits for the end of a job that was submitted with `/run`. */
  const awaitEnd = async (id: string): Promise<void> => {
    const { body } = await platform.request("GET", `/v2/soak/status-sync/${id}?wait=${LOST_AFTER}`)
    if (!isDone(body as { readonly status: string }, 1)) counts.lost += 1
  }
  const submitted = async (n: number): Promise<void> => awaitEnd(await platform.run("soak", { n, text: TEXT }))
  let isMeasuring = false
  // Deliveries stay in the database for a week, so a shorter run sees them only grow.
  const withWebhook = async (n: number): Promise<void> => {
    if (isMeasuring) return submitted(n)
    const { body } = await platform.request("POST", "/v2/soak/run", { input: { n, text: TEXT }, webhook: hooks.url })
    await awaitEnd((body as { readonly id: string }).id)
  }
  const cancel = async (n: number): Promise<void> => {
    const id = await platform.run("soak", { n, text: TEXT })
    await platform.request("POST", `/v2/soak/cancel/${id}`)
    counts.cancels += 1
  }
  const retried = async (n: number): Promise<void> => {
    counts.retried += 1
    await waitFor(n, 1)
  }
  const follow = async (n: number): Promise<void> => {
    const id = await platform.run("soak", { n, chunks: 3, text: TEXT })
    const response = await fetch(`${platform.url}/v2/soak/events/${id}`, {
      signal: AbortSignal.timeout(LOST_AFTER),
      headers: { authorization: `Bearer ${platform.key}` }
    })
    const read = (await response.text()).match(/^event: chunk/gm)?.length ?? 0
    counts["chunks read"] += read
    if (read !== 3) counts.lost += 1
  }
  /** The calls, and how often each one is made. */
  const mix: ReadonlyArray<readonly [share: number, job: (n: number) => Promise<void>]> = [
    [0.78, submitted],
    [0.1, waitFor],
    [0.04, follow],
    [0.04, withWebhook],
    [0.02, cancel],
    [0.02, retried]
  ]
  const oneOf = (dice: number): (n: number) => Promise<void> => {
    let sum = 0
    return mix.find(([share]) => dice < (sum += share))?.[1] ?? submitted
  }

  /** Makes calls until a time. `pauses`: whether a caller pauses after each call for as long as the call took. */
  const callers = (until: number, pauses: boolean): Promise<unknown> =>
    Promise.all(Array.from({ length: CALLERS }, async () => {
      for (let begun = performance.now(); begun < until; begun = performance.now()) {
        await oneOf(random())(counts.jobs++)
        if (pauses) await pause(performance.now() - begun)
      }
    }))

  await platform.runSync("soak", { n: 0 })
  await callers(performance.now() + CAPACITY_MILLIS, false)
  const capacity = counts.jobs / CAPACITY_MILLIS * 1_000

  const samples = new Map<string, Array<Sample>>()
  const add = (name: Measure, at: number, value: number) => {
    if (!samples.has(name)) samples.set(name, [])
    samples.get(name)?.push({ at, value })
  }
  const worker = await until("the memory of the worker", () => workerOf(probes, platform.pid))
  const sample = async (): Promise<void> => {
    const at = performance.now()
    add("memory of the platform", at, await keptBy(probes, platform.pid))
    add("memory of the worker", at, await keptBy(probes, worker))
    add("descriptors of the platform", at, await descriptorsOf(platform.pid))
    add("descriptors of the worker", at, await descriptorsOf(worker))
    add("used size of the database", at, await usedBytesOf(join(platform.dataDir, "stint.db")))
    add("size of its WAL", at, await sizeOf(platform.dataDir, "stint.db-wal"))
  }

  const started = performance.now()
  const half = counts.jobs
  const calling = callers(started + millis, true)
  while (performance.now() < started + millis) {
    await pause(every)
    isMeasuring = performance.now() > started + millis / 3
    if (isMeasuring) await sample()
  }
  await calling
  const seconds = (performance.now() - started) / 1_000
  await until("all jobs to end", async () => {
    const { body } = await platform.request("GET", "/v2/soak/health")
    const { jobs } = body as { readonly jobs: { readonly inQueue: number; readonly inProgress: number } }
    return jobs.inQueue + jobs.inProgress === 0 ? true : undefined
  }, LOST_AFTER)
  await rm(probes, { recursive: true })

  const grown: Array<ScenarioResult["violations"][number]> = []
  const lines: Array<string> = []
  for (const [name, all] of samples) {
    if (!isMeasure(name)) continue
    const { noise, unit } = MEASURES[name]
    const [level, growth] = [levelOf(all), growthOf(all)]
    const shown = unit === MIB ? " MiB" : ""
    const text = `${(level / unit).toFixed(1)}${shown}, ${(growth / unit).toFixed(2)}${shown} in ${
      (seconds * 2 / 3 / 60).toFixed(1)
    } min, ${(slopeOf(all) * 3_600_000 / unit).toFixed(2)}${shown} an hour`
    lines.push(`${name}: ${text}`)
    const most = noise(level) * (minutes < WHOLE_RUN_MINUTES ? SHORT_RUN_NOISE : 1)
    if (growth > most) grown.push({ rule: "R15", job: "-", text: `growth of the ${name}: ${text}` })
  }
  if (counts.lost > 0) grown.push({ rule: "R1", job: "-", text: `${counts.lost} jobs did not end as they should` })
  const rate = (counts.jobs - half) / seconds
  return {
    violations: grown,
    counts: {
      ...counts,
      webhooks: hooks.received.length,
      "jobs a second": Math.round(rate),
      "jobs a second at full load": Math.round(capacity)
    },
    report: `${minutes} min at ${Math.round(rate)} of ${Math.round(capacity)} jobs/s, ${counts.jobs} jobs\n${lines.join("\n")}\n`
  }
}

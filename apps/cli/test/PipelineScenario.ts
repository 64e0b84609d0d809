/**
 * Many runs of a pipeline while workers and platforms are killed at random moments (R14). The scenario returns the rules that are broken, so that
 * Pipelines.long.test.ts can require none, and PlantedBugs.long.test.ts can require that a planted bug is detected.
 */
import * as ProcessTable from "@stint/pool-process/ProcessTable"
import { execute } from "@stint/store-postgres/testing"
import { History, SeededRandom } from "@stint/store-testing"
import { stat } from "node:fs/promises"
import { join } from "node:path"
import process from "node:process"
import { DatabaseSync } from "node:sqlite"
import type { ScenarioOptions, ScenarioResult } from "./FaultScenarios.ts"
import { pause } from "./FaultWorld.ts"
import { linesOf } from "./JournalKills.ts"
import { FIXTURES, type JobObject, PlatformProcess, until } from "./PlatformProcess.ts"
import { startDatabase } from "./SharedDatabase.ts"
import { workersOf } from "./WorkerRecords.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "pipelines.config.ts")]

/** A limit for waits that only a broken platform reaches. Milliseconds. */
const GENEROUS = 120_000

/** How many runs are open at any time. */
export const OPEN_RUNS = 40

/** A line of the steps' log: when a step or a job began. */
interface Begun {
  readonly n: number
  readonly path: string
  readonly run?: string
  readonly at: number
}

const isEnded = ({ status }: JobObject): boolean => status !== "IN_QUEUE" && status !== "IN_PROGRESS"

/** Waits until the job has ended, even while the platform is being killed. */
export const endOf = (platform: PlatformProcess, endpoint: string, id: string): Promise<JobObject> =>
  until(`job ${id} of ${endpoint} to end`, async () => {
    const job = await platform.job(endpoint, id).catch(() => undefined)
    return job !== undefined && isEnded(job) ? job : undefined
  }, 4 * GENEROUS)

const settledIn = (rows: ReadonlyArray<ReadonlyArray<unknown>>): ReadonlyMap<string, number> =>
  new Map(rows.map(([run, path, at]) => [`${String(run)} ${String(path)}`, Number(at)]))

/** When each path was settled: a step was recorded, or a job ended. Read from the database of a stopped platform. */
const settledOf = (dataDir: string): ReadonlyMap<string, number> => {
  using db = new DatabaseSync(join(dataDir, "stint.db"), { readOnly: true })
  const rows = db.prepare("SELECT run, path, at FROM run_entries WHERE kind IN ('step', 'end')").all()
  return settledIn(rows.map(({ at, path, run }) => [run, path, at]))
}

/** The same in PostgreSQL. */
const settledInDatabase = async (url: string): Promise<ReadonlyMap<string, number>> =>
  settledIn(await execute(url, "SELECT run, path, at FROM stint.run_entries WHERE kind IN ('step', 'end')"))

/** How many lines of each platform's output an error shows. */
const SHOWN_LINES = 60

/** What the platforms say, for an error. */
const stateOf = async (platforms: ReadonlyArray<PlatformProcess>): Promise<string> => {
  const states = platforms.map(async (platform, index) => {
    const overview = await platform.request("GET", "/api/v1/overview/storm").catch((error: unknown) => ({ body: String(error) }))
    const output = platform.output.split("\n").slice(-SHOWN_LINES).join("\n")
    return `platform ${index}: ${JSON.stringify(overview.body)}\n${output}`
  })
  return (await Promise.all(states)).join("\n")
}

/** The size of a file that may not exist yet. */
const sizeOf = (file: string): Promise<number> => stat(file).then(({ size }) => size, () => 0)

/** How long a scenario kills. `isShared`: two nodes with a PostgreSQL database. */
interface KillOptions extends ScenarioOptions {
  readonly isShared?: boolean
  readonly millis: number
  /** The minimum number of kills. At least two workers and two platforms are killed. */
  readonly kills?: number
}

/** Kills for `millis`, and until there were enough kills. */
export const killedRuns = async (
  { env, isShared = false, kills = 0, millis, seed = SeededRandom.runSeed() }: KillOptions
): Promise<ScenarioResult> => {
  const random = SeededRandom.seededRandom(seed)
  const pick = <A>(list: ReadonlyArray<A>): A | undefined => list[Math.floor(random() * list.length)]
  await using database = isShared ? await startDatabase() : undefined
  const settings = { ...database?.settings, ...env }
  await using platform = await PlatformProcess.create(CONFIG, settings)
  await using other = isShared ? await PlatformProcess.create(CONFIG, settings) : undefined
  const platforms = other === undefined ? [platform] : [platform, other]
  const any = () => pick(platforms) ?? platform
  const log = join(platform.dataDir, "begun")
  let restarting: Promise<void> = Promise.resolve()
  const storm = new AbortController()
  let submitted = 0
  const ends: Array<{ readonly n: number; readonly job: JobObject }> = []

  /** Repeats a call until a platform responds. */
  const persistently = async <A>(call: () => Promise<A>): Promise<A> => {
    while (true) {
      try {
        return await call()
      } catch {
        await pause(100)
        await restarting
      }
    }
  }
  const caller = async (): Promise<void> => {
    while (!storm.signal.aborted) {
      // A call without a response may have started a run, so the next call has another number.
      const { id, n } = await persistently(async () => {
        const n = ++submitted
        return { n, id: await any().run("storm", { log, n }) }
      })
      ends.push({ n, job: await persistently(() => any().ended("storm", id)) })
    }
  }
  const callers = Promise.all(Array.from({ length: OPEN_RUNS }, caller))

  let workerKills = 0
  let platformKills = 0
  let logged = 0
  const stopAt = performance.now() + millis
  while (performance.now() < stopAt || workerKills < 2 || platformKills < 2 || workerKills + platformKills < kills) {
    // Otherwise, on a busy machine, only starting workers would be killed.
    logged = await until("a step to begin since the last kill", async () => {
      const size = await sizeOf(log)
      return size > logged ? size : undefined
    }, GENEROUS).catch(async (error: unknown) => {
      throw new Error(
        `${String(error)}; seed ${seed}, ${workerKills} workers and ${platformKills} platforms killed\n${await stateOf(
          platforms
        )}`
      )
    })
    await pause(random() * 1_500)
    const dice = random()
    if (dice < 0.8) {
      await until("a worker", async () => {
        const worker = pick((await Promise.all(platforms.map(({ dataDir }) => workersOf(dataDir)))).flat())
        if (worker === undefined || !ProcessTable.isRunning(worker)) return undefined
        return process.kill(worker.pid, "SIGKILL")
      }, GENEROUS)
      workerKills++
    }
    if (dice > 0.6) {
      const victim = any()
      restarting = victim.end("SIGKILL").then(() => victim.start())
      await restarting
      platformKills++
    }
  }
  storm.abort()
  await callers
  // Runs whose submission got no response have ended, too.
  const { failed = 0 } = await until("all runs to end", async () => {
    const { body } = await platform.request("GET", "/v2/storm/health")
    const { jobs } = body as { readonly jobs: Readonly<Record<string, number>> }
    return jobs["inQueue"] === 0 && jobs["inProgress"] === 0 ? jobs : undefined
  }, GENEROUS)
  for (const one of platforms) await one.end("SIGTERM")

  const settled = database === undefined ? settledOf(platform.dataDir) : await settledInDatabase(database.url)
  const begun = (await linesOf(log)).map((line) => JSON.parse(line) as Begun)
  const runs = new Map(begun.flatMap(({ n, run }) => run === undefined ? [] : [[n, run]]))
  const violations: Array<History.Violation> = []
  const broken = (n: number, text: string) => violations.push({ rule: "R14", job: runs.get(n) ?? `run ${n}`, text })
  for (const { at, n, path } of begun) {
    const settledAt = settled.get(`${runs.get(n)} ${path}`)
    // Every line belongs to a run and a path that is in the journal.
    if (settledAt === undefined) broken(n, `${path} began, and the journal has no end of it`)
    else if (at > settledAt) broken(n, `${path} began again ${at - settledAt} ms after its end was recorded`)
  }
  for (const { job, n } of ends) {
    if (job.status !== "COMPLETED" || job.output !== 60 * (n + 1)) {
      broken(n, `ended as ${job.status} with the output ${JSON.stringify(job.output)}: ${JSON.stringify(job.error)}`)
    }
  }
  if (failed > 0) broken(0, `${failed} runs failed`)
  const counts = {
    runs: ends.length,
    "worker kills": workerKills,
    "platform kills": platformKills,
    "settled paths": settled.size,
    begun: begun.length,
    "begun more than once": begun.length - new Set(begun.map(({ n, path }) => `${n} ${path}`)).size
  }
  return { violations, counts: { ...History.count([], violations), jobs: ends.length, ...counts } }
}

/**
 * Many short jobs while workers and the platform are killed at random moments (R1, R3).
 *
 * ```
 *   32 callers --run, with a key, until it is acknowledged--> platform (SQLite) <--- 2 workers, 16 jobs at once each
 *                                                                kill -9               kill -9
 *   at the end: every acknowledged job has completed with its own output, and there is no other job
 * ```
 */
import * as ProcessTable from "@stint/pool-process/ProcessTable"
import { type History, SeededRandom } from "@stint/store-testing"
import { join } from "node:path"
import process from "node:process"
import { pause } from "./FaultWorld.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"
import { workersOf } from "./WorkerRecords.ts"

const ENDPOINT = "quick"

const CALLERS = 32

/** Callers pause while this number of jobs waits or runs. */
const MAX_OPEN = 2_000

/** A limit for waits that only a broken platform reaches. Milliseconds. */
const GENEROUS = 120_000

/** How long the scenario kills: for `millis`, and until there were enough kills and jobs. */
export interface ManyKillsOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly seed?: number
  readonly millis: number
  readonly kills?: number
  readonly jobs?: number
}

/** What happened. */
export interface ManyKillsResult {
  /** What is wrong, in words. */
  readonly violations: ReadonlyArray<string>
  readonly counts: Readonly<Record<string, number>> & Pick<ReturnType<typeof History.count>, "jobs" | "lost">
}

export const manyKills = async (
  { env, jobs = 0, kills = 0, millis, seed = SeededRandom.runSeed() }: ManyKillsOptions
): Promise<ManyKillsResult> => {
  const random = SeededRandom.seededRandom(seed)
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "quick.config.ts")], env)
  let restarting: Promise<void> = Promise.resolve()
  const over = new AbortController()
  let open = 0
  let submitted = 0
  let repeated = 0
  /** The ids of the acknowledged jobs, by the number in their input. */
  const ids: Array<string> = []

  /** Sends a request, and repeats it until the platform responds with 200. */
  const persistently = async (path: string, submission?: { readonly body: string; readonly key: string }): Promise<unknown> => {
    while (true) {
      try {
        const headers = { authorization: `Bearer ${platform.key}` }
        const signal = AbortSignal.timeout(GENEROUS)
        const response = submission === undefined
          ? await fetch(platform.url + path, { headers, signal })
          : await fetch(platform.url + path, {
            method: "POST",
            body: submission.body,
            headers: { ...headers, "content-type": "application/json", "idempotency-key": submission.key },
            signal
          })
        const text = await response.text()
        if (response.status === 200) return JSON.parse(text)
      } catch {
        // The platform was killed.
      }
      repeated++
      await pause(50)
      await restarting
    }
  }

  const health = async () => {
    const { jobs: counts } = await persistently(`/v2/${ENDPOINT}/health`) as {
      readonly jobs: {
        readonly inQueue: number
        readonly inProgress: number
        readonly completed: number
        readonly failed: number
      }
    }
    open = counts.inQueue + counts.inProgress
    return counts
  }

  const caller = async (): Promise<void> => {
    while (!over.signal.aborted) {
      if (open > MAX_OPEN) {
        await pause(50)
        continue
      }
      const n = submitted++
      const body = JSON.stringify({ input: { n } })
      const { id } = await persistently(`/v2/${ENDPOINT}/run`, { body, key: `job ${n}` }) as {
        readonly id: string
      }
      ids[n] = id
    }
  }

  const watch = async (): Promise<void> => {
    while (!over.signal.aborted) {
      await health()
      await pause(250)
    }
  }

  const counts = { "worker kills": 0, "platform kills": 0 }
  const restart = async (): Promise<void> => {
    await platform.end("SIGKILL")
    await platform.start()
  }
  const kill = async (): Promise<void> => {
    const started = performance.now()
    const isEnough = () =>
      performance.now() - started >= millis && counts["worker kills"] > 1 && counts["platform kills"] > 0 &&
      counts["worker kills"] + counts["platform kills"] >= kills && ids.length >= jobs
    while (!isEnough()) {
      await pause(200 + random() * 1_500)
      if (random() < 0.3) {
        restarting = restart()
        await restarting
        counts["platform kills"]++
        continue
      }
      const workers = await workersOf(platform.dataDir)
      const victim = workers[Math.floor(random() * workers.length)]
      // The id of an ended process may belong to another one.
      if (victim === undefined || !ProcessTable.isRunning(victim)) continue
      process.kill(victim.pid, "SIGKILL")
      counts["worker kills"]++
    }
  }

  const callers = [watch(), ...Array.from({ length: CALLERS }, caller)]
  try {
    await kill()
  } finally {
    over.abort()
    await Promise.all(callers)
  }
  await until("all jobs to end", async () => {
    await health()
    return open === 0 ? true : undefined
  }, GENEROUS)

  const violations: Array<string> = []
  let lost = 0
  let next = 0
  const check = async (): Promise<void> => {
    for (let n = next++; n < ids.length; n = next++) {
      const job = await platform.job(ENDPOINT, ids[n] ?? "").catch((error: unknown) => ({
        status: String(error),
        output: undefined
      }))
      if (job.status === "COMPLETED" && JSON.stringify(job.output) === JSON.stringify({ n })) continue
      lost++
      violations.push(`job ${n} (${ids[n]}) is ${job.status} with the output ${JSON.stringify(job.output)}`)
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, check))
  const { completed, failed } = await health()
  const distinct = new Set(ids).size
  if (distinct !== ids.length) violations.push(`${ids.length} keys have ${distinct} jobs`)
  if (completed + failed !== ids.length) violations.push(`${ids.length} jobs were acknowledged, and ${completed + failed} exist`)
  return { violations, counts: { jobs: ids.length, lost, ...counts, "repeated requests": repeated } }
}

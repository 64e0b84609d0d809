/**
 * Outages of the database between real processes (R7): a platform with a PostgreSQL database that is killed, whose connections are ended, or that
 * stops responding. The scenario returns the rules that its history breaks, so that Outages.long.test.ts can require none, and
 * PlantedBugs.long.test.ts can require that a planted bug is detected.
 */
import { execute, type TestCluster } from "@stint/store-postgres/testing"
import { type History, SeededRandom } from "@stint/store-testing"
import process from "node:process"
import { result, type ScenarioOptions, type ScenarioResult, STORM } from "./FaultScenarios.ts"
import { FaultWorld, pause } from "./FaultWorld.ts"
import { until } from "./PlatformProcess.ts"
import { startDatabase } from "./SharedDatabase.ts"

/** How soon a worker must receive a job once the database is back. Milliseconds. */
const CLAIM_WITHIN = 5_000

/** The shortest and the longest outage. Milliseconds. */
const SHORTEST = 1_000
const LONGEST = 8_000

/** How long the workers may take to start on a busy machine. Milliseconds. */
const START_WITHIN = 60_000

const CALLERS = 6

/** Takes the database away for some time. Completes when it accepts statements again. */
export type Outage = (cluster: TestCluster, millis: number) => Promise<void>

const others = "FROM pg_stat_activity WHERE application_name = 'stint' AND pid <> pg_backend_pid()"

/** Killed, and started again. */
export const kill: Outage = async (cluster, millis) => {
  await cluster.ctl("-m", "immediate", "stop")
  await pause(millis)
  await cluster.ctl("start")
}

/** All connections are ended, as a proxy or an operator would do. */
export const terminate: Outage = async (cluster) =>
  void await execute(cluster.url("postgres"), `SELECT pg_terminate_backend(pid) ${others}`)

/** Its processes do not respond, as if the network dropped packets. */
export const freeze: Outage = async (cluster, millis) => {
  const rows = await execute(cluster.url("postgres"), `SELECT pid ${others}`)
  const pids = rows.map(([pid]) => Number(pid))
  for (const pid of pids) process.kill(pid, "SIGSTOP")
  await pause(millis)
  for (const pid of pids) process.kill(pid, "SIGCONT")
}

const OUTAGES: ReadonlyArray<Outage> = [kill, terminate, freeze]

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** The database goes away `rounds` times, each time in a different way, while callers submit jobs and three workers run them. */
export const outages = async (
  { env, rounds, seed = SeededRandom.runSeed() }: ScenarioOptions & { readonly rounds: number }
): Promise<ScenarioResult> => {
  // With fsync, because what PostgreSQL has acknowledged must survive a kill.
  await using database = await startDatabase({ fsync: true })
  await using world = await FaultWorld.create(STORM, { STINT_DATABASE: database.url, ...env })
  const { history, platform } = world
  const { pid } = platform
  const random = SeededRandom.seededRandom(seed)
  const found: Array<History.Violation> = []
  const broken = (text: string) => found.push({ rule: "R7", job: "-", text })
  const claimAfter = (index: number) => () => history.events().slice(index).find(({ _tag }) => _tag === "Started")
  const ids: Array<string> = []
  const over = new AbortController()

  const caller = async (name: number): Promise<void> => {
    for (let n = 0; !over.signal.aborted; n++) {
      ids.push(await world.submit({ n, ms: 50 }, { key: `caller ${name}, order ${n}`, patient: true }))
      await pause(200)
    }
  }

  for (let started = 0; started < 3; started++) world.startWorker()
  const callers = Promise.all(Array.from({ length: CALLERS }, (_, name) => caller(name)))
  const limit = Math.round(CLAIM_WITHIN * world.slowness)
  // A caller fails when the world is closed, or when the platform responds with anything but 200 or 503.
  let failure: unknown
  callers.catch((error: unknown) => {
    failure = error
  })
  let away = 0
  let slowest = 0
  for (let round = 0; round < rounds && found.length === 0; round++) {
    await until("a job to start", claimAfter(history.events().length), START_WITHIN).catch((error: unknown) => {
      throw failure ?? error
    })
    const begun = Date.now()
    await OUTAGES[round % OUTAGES.length]?.(database.cluster, SHORTEST + random() * (LONGEST - SHORTEST))
    const returned = Date.now()
    away += returned - begun
    // Waits beyond the limit, so that the violation names the time of a late claim.
    const waitMs = limit + CLAIM_WITHIN
    const claim = await until("the first claim", claimAfter(history.events().length), waitMs).catch(() => undefined)
    const took = claim === undefined ? waitMs : claim.at - returned
    slowest = Math.max(slowest, took)
    if (claim === undefined) broken(`no worker received a job within ${waitMs} ms of the return of the database`)
    else if (took > limit) broken(`the first claim came ${took} ms after the return of the database`)
    if (!isRunning(pid)) broken("the platform has ended")
  }
  over.abort()
  const figures = { outages: rounds, "away in ms": away, "refused submissions": world.refusals, "slowest claim in ms": slowest }
  // A platform without its database accepts no calls.
  if (found.length > 0) return result(world, { ended: false }, figures, found)
  const endedBy = Date.now() + (STORM.leaseMs + 5_000) * world.slowness
  await callers
  await Promise.all(ids.map((id) => world.observeEnd(id, endedBy + 3_000)))
  return result(world, { endedBy, cancelGrace: 1_000 }, figures)
}

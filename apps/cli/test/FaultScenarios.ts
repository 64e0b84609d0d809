/**
 * Faults between real processes: a storm of kills, freezes and lost responses; workers frozen past their lease; cancels; stream readers;
 * workers killed. Each scenario returns the rules that its history breaks, so that Faults.long.test.ts can require none, and
 * PlantedBugs.long.test.ts can require that a planted bug is detected.
 */
import { History, SeededRandom } from "@stint/store-testing"
import { FaultWorld, pause, type Worker } from "./FaultWorld.ts"
import { until } from "./PlatformProcess.ts"

/** The outcome of a scenario. */
export interface ScenarioResult {
  readonly violations: ReadonlyArray<History.Violation>
  readonly counts: ReturnType<typeof History.count> & Readonly<Record<string, number>>
}

/** Settings of every scenario. */
export interface ScenarioOptions {
  /** Environment variables of the platform. */
  readonly env?: Readonly<Record<string, string>>
  /** Default: the seed of this run. */
  readonly seed?: number
  /** The number of nodes of a platform with a PostgreSQL database. Default: one process with its own database. */
  readonly nodes?: number
}

const LEASE = 3_000

export const STORM = {
  leaseMs: LEASE,
  maxAttempts: 10,
  retry: { maxAttempts: 10, onError: true, backoff: { initialMs: 100, maxMs: 1_000 } }
}

/** Checks the history of a world, and counts. */
export const result = (
  { history, restarts }: FaultWorld,
  expectations: History.Expectations,
  more: Readonly<Record<string, number>> = {},
  found: ReadonlyArray<History.Violation> = []
): ScenarioResult => {
  const violations = [...history.check(expectations), ...found]
  return { violations, counts: { ...History.count(history.events(), violations), "platform kills": restarts, ...more } }
}

/** If no kill has ended an attempt by the end of a storm, the storm continues until one has, for at most this time. Milliseconds. */
const KILL_WITHIN = 20_000

/**
 * A storm does not submit while this number of jobs waits or runs. A frozen worker runs no jobs, so without this limit a long storm submits more jobs
 * than its workers can run, and the jobs still waiting at its end alone take longer than a lease and 5 s.
 */
const MAX_OPEN = 10

/**
 * Workers killed and frozen past their lease, lost responses, readers cut every 200 ms, cancels, and a kill -9 of the platform. All jobs
 * must have ended a lease and 5 s after the last fault.
 */
export const storm = async (
  { env, millis, nodes, seed = SeededRandom.runSeed() }: ScenarioOptions & { readonly millis: number }
): Promise<ScenarioResult> => {
  await using world = await FaultWorld.create(STORM, env, nodes)
  const { platform, proxy } = world
  const random = SeededRandom.seededRandom(seed)
  const ids: Array<string> = []
  const callers: Array<Promise<void>> = []
  const frozen = new Set<Worker>()
  let freezes = 0
  let kills = 0
  /** Attempts that a kill ended. */
  let lost = 0
  let connections = 0

  const pick = <A>(list: ReadonlyArray<A>): A | undefined => list[Math.floor(random() * list.length)]

  const freeze = async (worker: Worker) => {
    frozen.add(worker)
    freezes += 1
    // Most of these workers send a late result. The others first receive the signal to stop.
    if (random() < 0.7) proxy.withholdStops(worker.name)
    worker.process.kill("SIGSTOP")
    await pause(1.2 * LEASE)
    frozen.delete(worker)
    worker.process.kill("SIGCONT")
    await pause(1_000)
    proxy.allowStops(worker.name)
  }

  const kill = (worker: Worker) => {
    const job = world.runningJob(worker)
    // A result that was sent before the kill may still arrive.
    const count = async () => {
      await pause(100)
      if (job !== undefined && world.runningJob(worker) === job) lost += 1
    }
    worker.process.once("exit", () => void count())
    worker.process.kill("SIGKILL")
    kills += 1
    world.startWorker()
  }

  const caller = async (n: number) => {
    const input = { n, ms: Math.floor(random() * 600), chunks: Math.floor(random() * 5), fails: random() < 0.2 ? 1 : 0 }
    const key = `order ${n}`
    // Sometimes two concurrent submits with the same key.
    const submits = random() < 0.3 ? [world.submit(input, { key }), world.submit(input, { key })] : [world.submit(input, { key })]
    const [id = ""] = await Promise.all(submits)
    ids.push(id)
    if (random() < 0.3) world.background.push(world.follow(id, 200).then((took) => void (connections += took)))
    if (random() < 0.15) {
      await pause(random() * 500)
      await world.cancel(id)
    }
  }

  /** The number of waiting and running jobs. */
  const open = async (): Promise<number> => {
    const { body } = await platform.request("GET", "/v2/storm/health")
    const { jobs } = body as { readonly jobs: { readonly inQueue: number; readonly inProgress: number } }
    return jobs.inQueue + jobs.inProgress
  }

  for (let started = 0; started < 3; started++) world.startWorker()
  proxy.cutResponses(0.02, random)
  const stopAt = performance.now() + millis
  const killAt = performance.now() + millis / 2
  const isStorming = () => performance.now() < stopAt || (lost === 0 && performance.now() < stopAt + KILL_WITHIN)
  for (let n = 0; isStorming(); n++) {
    if (await open() < MAX_OPEN) callers.push(caller(n))
    await pause(120 + random() * 120)
    const dice = random()
    const busy = world.busyWorkers().filter((worker) => !frozen.has(worker))
    const worker = pick([...world.workers].filter((one) => !frozen.has(one)))
    // Every run of the test ends an attempt with a kill, and freezes a worker that holds a job.
    if (lost === 0 && busy[0] !== undefined) kill(busy[0])
    else if (freezes === 0 && busy[0] !== undefined) world.background.push(freeze(busy[0]))
    else if (worker !== undefined && dice < 0.05) kill(worker)
    else if (dice < 0.12 && frozen.size < 2) {
      const one = pick(busy) ?? worker
      if (one !== undefined) world.background.push(freeze(one))
    }
    if (world.restarts === 0 && performance.now() > killAt) await world.killPlatform()
  }
  proxy.cutResponses(0, random)
  for (const worker of frozen) worker.process.kill("SIGCONT")
  const stoppedAt = Date.now()
  await Promise.all(callers)
  const endedBy = stoppedAt + (LEASE + 5_000) * world.slowness
  // Waits beyond the limit, so that the violation names the time of a late end.
  await Promise.all(ids.map((id) => world.observeEnd(id, endedBy + 3_000)))
  const endedAfter = Date.now() - stoppedAt
  const found: Array<History.Violation> = []
  if (new Set(ids).size !== ids.length) found.push({ rule: "R3", job: "", text: "two keys have the same job" })
  const left = await open()
  if (left > 0) found.push({ rule: "R5", job: "", text: `${left} jobs are left` })
  // A follower of a job that never ends would never return.
  if (found.length === 0) await Promise.all(world.background)
  for (const id of ids) await world.observe(id)
  const figures = { "worker kills": kills, freezes, connections, "slowest end in ms": endedAfter }
  return result(world, { endedBy, cancelGrace: 1_000 }, figures, found)
}

/**
 * A worker is frozen past its lease while another worker runs its job, and sends its late chunk or result: in even rounds after the job
 * has ended, in odd rounds while the other attempt runs.
 */
export const frozenWorkers = async (
  { env, nodes, rounds }: ScenarioOptions & { readonly rounds: number }
): Promise<ScenarioResult> => {
  await using world = await FaultWorld.create(STORM, env, nodes)
  const { history, platform, proxy } = world
  const started = (job: string, attempt: number) => () =>
    history.events().find((event) => event._tag === "Started" && event.job === job && event.attempt === attempt)
  /** The late write of the first attempt, whatever the platform's response. */
  const lateWrite = (job: string, after: number) => () =>
    history.events().slice(after).find((event) =>
      event.job === job && "attempt" in event && event.attempt === 1 &&
      (event._tag === "Delivered" || event._tag === "ChunkRefused" || event._tag === "ChunkWritten")
    )
  let lateWrites = 0
  for (let round = 0; round < rounds; round++) {
    const whileRunning = round % 2 === 1
    const first = world.startWorker()
    // A chunk that is refused ends the attempt, so only a job without chunks has a late result.
    const id = await world.submit({ n: round, ms: 400, retryMs: whileRunning ? 3_000 : 400, chunks: round % 4 < 2 ? 0 : 2 })
    await until("the first attempt", started(id, 1))
    proxy.withholdStops(first.name)
    first.process.kill("SIGSTOP")
    const before = history.events().length
    world.startWorker()
    await until("the second attempt", started(id, 2))
    if (!whileRunning) await world.observeEnd(id, Date.now() + 20_000)
    first.process.kill("SIGCONT")
    await until("the late write of the frozen worker", lateWrite(id, before))
    lateWrites += 1
    await world.observeEnd(id, Date.now() + 20_000)
    for (const { process } of world.workers) process.kill("SIGTERM")
    await until("the workers to exit", () => world.workers.size === 0 ? true : undefined)
    proxy.allowStops(first.name)
    if ((await platform.job("storm", id)).status !== "COMPLETED") throw new Error(`job ${id} did not complete`)
    await world.observe(id)
  }
  return result(world, {}, { freezes: rounds, "late writes": lateWrites })
}

/**
 * Running handlers are cancelled: on one platform, while the job-stop connections of their workers are cut every 400 ms; on several nodes, through
 * other nodes than the one where the workers listen.
 */
export const cancels = async (
  { count, env, nodes, seed = SeededRandom.runSeed() }: ScenarioOptions & { readonly count: number }
): Promise<ScenarioResult> => {
  await using world = await FaultWorld.create({ ...STORM, leaseMs: 30_000 }, env, nodes)
  const { history, proxy } = world
  const width = Math.min(4, count)
  for (let started = 0; started < width; started++) world.startWorker()
  const random = SeededRandom.seededRandom(seed)
  const interruptWithin = 3_000 * world.slowness
  world.cancelsElsewhere = nodes !== undefined
  // The worker reconnects each time.
  const cutting = nodes === undefined ? setInterval(() => proxy.cutOpen("job-stop"), 400) : undefined
  let n = 0
  const cancelAll = async () => {
    while (n < count) {
      const id = await world.submit({ n: n++, ms: 60_000 })
      await until("the handler to run", async () => (await world.handlers()).find((line) => line.id === id))
      await pause(random() * 500)
      if (!await world.cancel(id)) throw new Error(`the cancel did not end job ${id}`)
      const aborted = async () => (await world.handlers()).find((line) => line.id === id && line.event === "aborted")
      const line = await until("the handler to stop", aborted, 2 * interruptWithin).catch(() => undefined)
      if (line !== undefined) history.record({ _tag: "Interrupted", at: line.at, job: id })
      await world.observe(id)
      // The worker cannot be used for another job while its handler runs.
      if (line === undefined) return
    }
  }
  try {
    await Promise.all(Array.from({ length: width }, cancelAll))
  } finally {
    clearInterval(cutting)
  }
  const interrupted = history.events().filter(({ _tag }) => _tag === "Interrupted").length
  return result(world, { interruptWithin }, { interrupts: interrupted })
}

/** Four readers follow a job over connections that are cut, while a worker writes 600 chunks. */
export const cutReaders = async (
  { env, nodes, rounds }: ScenarioOptions & { readonly rounds: number }
): Promise<ScenarioResult> => {
  await using world = await FaultWorld.create({ ...STORM, leaseMs: 10_000 }, env, nodes)
  world.startWorker()
  let connections = 0
  let fewest = Infinity
  for (let round = 0; round < rounds; round++) {
    const id = await world.submit({ n: round, ms: 4_000, chunks: 600 })
    const used = await Promise.all([200, 200, 50, 333].map((cutMs) => world.follow(id, cutMs)))
    await world.observe(id)
    fewest = Math.min(fewest, ...used)
    connections += used.reduce((sum, one) => sum + one, 0)
  }
  const chunks = world.history.events().filter(({ _tag }) => _tag === "ChunkRead").length
  return result(world, {}, { connections, "chunks read": chunks, "fewest connections": fewest })
}

/** Workers are killed one after the other, each while it runs a job. Each job must run on another worker and end. */
export const killedWorkers = async (
  { env, nodes, rounds }: ScenarioOptions & { readonly rounds: number }
): Promise<ScenarioResult> => {
  await using world = await FaultWorld.create(STORM, env, nodes)
  const { history } = world
  const found: Array<History.Violation> = []
  world.startWorker()
  for (let round = 0; round < rounds; round++) {
    const id = await world.submit({ n: round, ms: 300 })
    const started = await until(
      "the first attempt",
      () => history.events().find((event) => event._tag === "Started" && event.job === id)
    )
    const worker = [...world.workers].find(({ name }) => "worker" in started && name === started.worker)
    worker?.process.kill("SIGKILL")
    world.startWorker()
    await world.observeEnd(id, Date.now() + (LEASE + 5_000) * world.slowness)
    const workers = history.events().flatMap((event) => event._tag === "Started" && event.job === id ? [event.worker] : [])
    if (new Set(workers).size < 2) found.push({ rule: "R6", job: id, text: "no other worker ran the job of a killed worker" })
  }
  return result(world, {}, { "worker kills": rounds }, found)
}

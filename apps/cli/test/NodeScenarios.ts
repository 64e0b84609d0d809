/**
 * Faults of a platform with several nodes and one PostgreSQL database: nodes killed, frozen and cut off from the database, workers killed and frozen, and
 * outages of the database, while callers submit jobs, cancel some and follow others. Every call goes to the next node, so a job is usually submitted,
 * taken, delivered and read through different nodes.
 */
import { type History, SeededRandom } from "@stint/store-testing"
import { result, type ScenarioOptions, type ScenarioResult, STORM } from "./FaultScenarios.ts"
import { FaultWorld, type Node, pause } from "./FaultWorld.ts"
import { freeze, kill, type Outage, terminate } from "./OutageScenario.ts"

const WORKERS = 4
const CALLERS = 6

/**
 * How many of its jobs a caller leaves open. Together, the callers submit more than the workers run on a slow machine, and the last jobs of a backlog would
 * end late for no other reason.
 */
const OPEN_JOBS = 3

/** How long the platform works undisturbed between two faults. Milliseconds. */
const CALM = 1_500

/** How long a frozen worker or node, a partition and an outage last. Milliseconds. */
const SHORTEST = 1_000
const LONGEST = 8_000

/** Options of the storm. */
export interface StormOptions extends ScenarioOptions {
  readonly nodes: number
  /** How many times each fault happens. */
  readonly rounds: number
  /** The length of one more outage of the database, at the end. Default: none. Milliseconds. */
  readonly longOutage?: number
}

/** Each round has every fault once, in a random order. */
export const nodeStorm = async (
  { env, longOutage, nodes: count, rounds, seed = SeededRandom.runSeed() }: StormOptions
): Promise<ScenarioResult> => {
  await using world = await FaultWorld.create(STORM, env, count)
  const { nodes } = world
  if (nodes === undefined) throw new Error("the platform has no nodes")
  const random = SeededRandom.seededRandom(seed)
  const pick = <A>(list: ReadonlyArray<A>): A => {
    const found = list[Math.floor(random() * list.length)]
    if (found === undefined) throw new Error("there is nothing to pick from")
    return found
  }
  const duration = () => SHORTEST + random() * (LONGEST - SHORTEST)

  const freezeNode = async ({ platform }: Node) => {
    platform.signal("SIGSTOP")
    await pause(duration())
    platform.signal("SIGCONT")
  }
  const partition = (kind: "both" | "replies") => async ({ link }: Node) => {
    link.cut(kind)
    await pause(duration())
    link.heal()
  }
  const outage = (one: Outage) => () => one(nodes.database.cluster, duration())
  const onNode = (fault: (node: Node) => Promise<void>) => () => fault(pick(nodes.all))
  const faults: ReadonlyArray<readonly [name: string, fault: () => Promise<void>]> = [
    ["nodes killed", onNode(({ platform }) => world.killPlatform(platform))],
    ["nodes frozen", onNode(freezeNode)],
    ["nodes cut off", onNode(partition("both"))],
    ["nodes that receive no replies", onNode(partition("replies"))],
    ["workers killed", async () => {
      const { process } = pick(world.busyWorkers().length > 0 ? world.busyWorkers() : [...world.workers])
      process.kill("SIGKILL")
      world.startWorker()
    }],
    ["workers frozen", async () => {
      const worker = pick(world.busyWorkers().length > 0 ? world.busyWorkers() : [...world.workers])
      worker.process.kill("SIGSTOP")
      await pause(duration())
      worker.process.kill("SIGCONT")
    }],
    ["kills of the database", outage(kill)],
    ["ends of all its connections", outage(terminate)],
    ["freezes of the database", outage(freeze)]
  ]

  const ids: Array<string> = []
  const state = { isOver: false, cancels: 0, follows: 0, connections: 0 }
  const caller = async (name: number): Promise<void> => {
    const open: Array<string> = []
    for (let n = 0; !state.isOver; n++) {
      if (open.length === OPEN_JOBS) await world.waitForEnd(open.shift() ?? "", () => state.isOver)
      const input = { n, ms: Math.floor(random() * 300), chunks: Math.floor(random() * 4), fails: random() < 0.1 ? 1 : 0 }
      const key = `caller ${name}, order ${n}`
      const twice = random() < 0.2
      const submits = Array.from({ length: twice ? 2 : 1 }, () => world.submit(input, { key, patient: true }))
      const [id = ""] = await Promise.all(submits)
      ids.push(id)
      open.push(id)
      const dice = random()
      if (dice < 0.2) {
        state.follows += 1
        world.background.push(world.follow(id, 1_000).then((connections) => void (state.connections += connections)))
      } else if (dice < 0.3) {
        state.cancels += 1
        await world.cancel(id)
      }
      await pause(300)
    }
  }
  for (let started = 0; started < WORKERS; started++) world.startWorker()
  const callers = Promise.all(Array.from({ length: CALLERS }, (_, name) => caller(name)))
  // Awaited below; until then, its failure ends the storm.
  const failures: Array<Error> = []
  callers.catch((error: unknown) => failures.push(error instanceof Error ? error : new Error(String(error))))

  const counts: Record<string, number> = {}
  const inflict = async (name: string, fault: () => Promise<void>) => {
    await pause(CALM)
    const [failure] = failures
    if (failure !== undefined) throw failure
    await fault()
    counts[name] = (counts[name] ?? 0) + 1
  }
  for (let round = 0; round < rounds; round++) {
    const order = faults.map((fault) => ({ fault, at: random() })).sort((a, b) => a.at - b.at)
    for (const { fault } of order) await inflict(...fault)
  }
  if (longOutage !== undefined) {
    await inflict("long freezes of the database", () => freeze(nodes.database.cluster, longOutage))
  }

  const stoppedAt = Date.now()
  const endedBy = stoppedAt + (STORM.leaseMs + 5_000) * world.slowness
  state.isOver = true
  await callers
  // Waits beyond the limit, so that the violation names the time of a late end.
  await Promise.all(ids.map((id) => world.observeEnd(id, endedBy + 3_000)))
  const found: Array<History.Violation> = []
  if (new Set(ids).size !== ids.length) found.push({ rule: "R3", job: "", text: "two keys have the same job" })
  // A follower of a job that never ends would never return.
  if (world.history.check({ endedBy }).length === 0) await Promise.all(world.background)
  // All nodes say the same of each job.
  for (const id of ids) for (const _ of nodes.all) await world.observe(id)
  const figures = {
    ...counts,
    "refused calls": world.refusals,
    cancels: state.cancels,
    follows: state.follows,
    connections: state.connections
  }
  return result(world, { endedBy, cancelGrace: 1_000 }, { ...figures, "slowest end in ms": Date.now() - stoppedAt }, found)
}

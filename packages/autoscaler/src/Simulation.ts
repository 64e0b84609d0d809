/**
 * Runs a scaler against arrivals in simulated time: one endpoint, workers that run one job at a time.
 *
 * ```
 *   arrival ----> [ waiting ] ---> an idle worker takes the oldest job
 *                                      |
 *   start --cold start--> [ idle ] <---+--- end of the job
 *                            |
 *                          drain ---> gone
 *
 *   every event, and the time that the scaler requests ---> the scaler decides
 * ```
 *
 * The scaler sees the same observation as in production, so ScalingPolicy.ts makes the same decisions. Starts never fail, a worker stops at
 * once when it is drained, and the worker that has been idle longest takes the next job.
 */
import type * as ScalingPolicy from "./ScalingPolicy.ts"

/** A job: when it is submitted, and its run time. Milliseconds. */
export interface Arrival {
  readonly at: number
  readonly duration: number
}

/** A scaler's decision. It starts and stops workers; `wakeAt` is the latest time at which it wants to decide again. */
export type ScalerDecision = Pick<ScalingPolicy.Decision, "start" | "drain" | "wakeAt">

/** A scaler with its own state, for one run. */
export type Scaler = (observation: ScalingPolicy.Observation) => ScalerDecision

/** What is simulated. */
export interface SimulationOptions {
  /** In the order of their times. */
  readonly arrivals: ReadonlyArray<Arrival>
  readonly limits: ScalingPolicy.Observation["limits"]
  readonly scaler: ScalingPolicy.Observation["scaler"]
  /** The time from a worker's start until it takes jobs. Milliseconds. */
  readonly coldStart: number
  readonly decide: Scaler
}

/** What happened. */
export interface SimulationResult {
  /** The time that each job waited until a worker took it, in the order of arrival. Milliseconds. */
  readonly waits: ReadonlyArray<number>
  /** The number of started workers. */
  readonly starts: number
  /** The time from start to stop, summed over all workers, including cold starts and idle time. Milliseconds. */
  readonly workerMillis: number
  /** The largest number of workers at one time. */
  readonly peak: number
}

interface SimulatedWorker {
  readonly id: string
  readonly startedAt: number
  state: "starting" | "idle" | "running"
  idleSince: number | null
  /** The end of the cold start or of the job; infinite while idle. */
  busyUntil: number
}

/** A limit, because a decision that changes nothing would otherwise be repeated forever at the same simulated time. */
const MAX_DECISIONS_AT_ONCE = 1_000

/**
 * Runs until all jobs have ended and all workers above the minimum have stopped. Throws when the scaler breaks a rule: it exceeds the maximum, stops a
 * busy worker, lets jobs wait forever, or decides again and again at one time.
 */
export const simulate = ({ arrivals, coldStart, decide, limits, scaler }: SimulationOptions): SimulationResult => {
  const workers = new Map<string, SimulatedWorker>()
  const waiting: Array<{ readonly arrival: Arrival; readonly index: number }> = []
  const waits = arrivals.map(() => Number.NaN)
  let arrived = 0
  let taken = 0
  let starts = 0
  let peak = 0
  let workerMillis = 0
  let lastStartAt: number | null = null
  let wakeAt: number | null = 0
  let now = 0
  let decisionsAtOnce = 0

  const advance = () => {
    for (; arrived < arrivals.length; arrived++) {
      const arrival = arrivals[arrived]
      if (arrival === undefined || arrival.at > now) break
      waiting.push({ arrival, index: arrived })
    }
    for (const worker of workers.values()) {
      if (worker.busyUntil > now) continue
      worker.state = "idle"
      worker.idleSince = worker.busyUntil
      worker.busyUntil = Infinity
    }
    const idle = [...workers.values()].filter(({ state }) => state === "idle")
      .sort((a, b) => (a.idleSince ?? 0) - (b.idleSince ?? 0))
    for (const worker of idle) {
      const next = waiting[taken]
      if (next === undefined) break
      taken += 1
      waits[next.index] = now - next.arrival.at
      worker.state = "running"
      worker.idleSince = null
      worker.busyUntil = now + next.arrival.duration
    }
  }

  const scale = () => {
    const all = [...workers.values()]
    const depth = waiting.length - taken
    const decision = decide({
      limits,
      scaler,
      startable: true,
      depth: {
        waiting: depth,
        waitingLow: 0,
        running: all.filter(({ state }) => state === "running").length,
        oldestQueuedAt: waiting[taken]?.arrival.at ?? null
      },
      workers: all.map(({ id, idleSince, state }) => ({ id, state, idleSince, outdated: false })),
      externalWorkers: { idle: 0, running: 0 },
      lastStartAt,
      now
    })
    for (let n = 0; n < decision.start; n++) {
      const id = `w${++starts}`
      workers.set(id, { id, startedAt: now, state: "starting", idleSince: null, busyUntil: now + coldStart })
      lastStartAt = now
    }
    for (const id of decision.drain) {
      const worker = workers.get(id)
      if (worker?.state !== "idle") throw new Error(`the scaler drained ${id}, which is ${worker?.state ?? "not running"}`)
      workers.delete(id)
      workerMillis += now - worker.startedAt
    }
    if (workers.size > limits.max) throw new Error(`${workers.size} workers are more than the maximum of ${limits.max}`)
    peak = Math.max(peak, workers.size)
    ;({ wakeAt } = decision)
  }

  while (true) {
    advance()
    scale()
    const next = Math.min(
      arrivals[arrived]?.at ?? Infinity,
      wakeAt ?? Infinity,
      ...[...workers.values()].map(({ busyUntil }) => busyUntil)
    )
    const ended = arrived === arrivals.length && taken === waiting.length
    if (ended && (workers.size <= limits.min || next === Infinity)) break
    if (next === Infinity) throw new Error(`${waiting.length - taken} jobs wait forever`)
    decisionsAtOnce = next > now ? 0 : decisionsAtOnce + 1
    if (decisionsAtOnce > MAX_DECISIONS_AT_ONCE) throw new Error(`the scaler asks again and again at ${now}`)
    now = Math.max(now, next)
  }
  for (const { startedAt } of workers.values()) workerMillis += now - startedAt
  return { waits, starts, workerMillis, peak }
}

/**
 * The minimum worker time with which no job waits, for a scaler that knows all arrivals: each worker starts one cold start before its first
 * job. A worker that ends a job continues with the next job if the gap costs less than another cold start. Each job takes the worker that
 * became idle last.
 */
export const optimum = (
  arrivals: ReadonlyArray<Arrival>,
  coldStart: number
): Pick<SimulationResult, "starts" | "workerMillis"> => {
  const events = [
    ...arrivals.map(({ at }) => ({ at, isStart: true })),
    ...arrivals.map(({ at, duration }) => ({ at: at + duration, isStart: false }))
  ].sort((a, b) => a.at - b.at || Number(a.isStart) - Number(b.isStart))
  const idleSince: Array<number> = []
  let starts = 0
  let workerMillis = arrivals.reduce((sum, { duration }) => sum + duration, 0)
  for (const { at, isStart } of events) {
    if (!isStart) {
      idleSince.push(at)
      continue
    }
    const since = idleSince.pop()
    if (since !== undefined && at - since < coldStart) workerMillis += at - since
    else {
      starts += 1
      workerMillis += coldStart
    }
  }
  return { starts, workerMillis }
}

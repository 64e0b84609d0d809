/**
 * Samples the endpoints every five seconds, and keeps the last hour in memory, for charts (docs/decisions/0082-history-of-endpoints.md).
 *
 * ```
 *   JobCounters      ended jobs, waits, executions since the last sample   \
 *   JobStore.depth   waiting, delayed, running                               > one row of the endpoint's EndpointSamples --> API, console
 *   WorkerRegistry   workers by state, starts                               /
 * ```
 *
 * Costs nothing when a job changes. The queue of an endpoint is read only if it has jobs or its jobs have changed, so an idle platform reads nothing.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { partsOf } from "@stint/queue/WorkerStarts"
import { EndpointHistories } from "@stint/server/EndpointHistories"
import * as AlignedSleep from "@stint/store/AlignedSleep"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import { Nodes } from "@stint/store/Nodes"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { type Column, EndpointSamples, KEPT, percentile, type Sample, STATES, STEP_MILLIS } from "./EndpointSamples.ts"
import { JobCounters, type JobCounts } from "./JobMetrics.ts"

/** The maximum number of endpoints with samples. Each takes 104 KB. An endpoint that has been idle for an hour has none. */
const MAX_SAMPLED = 200

/** The maximum number of samples in a response. More are merged. */
const MAX_POINTS = 120

const MINUTE_MILLIS = 60_000
const PER_MINUTE = MINUTE_MILLIS / STEP_MILLIS

/** The minutes of the short line of an endpoint. */
const LINE_MINUTES = 30

/** With several nodes, jobs also change on other nodes: the queue is then read at least at every sixth sample. */
const SHARED_READ = 6

interface Sampled {
  readonly samples: EndpointSamples
  /** The sequence number of the last sample in which anything happened. */
  lastBusy: number
}

/** What was known at the last sample of an endpoint. */
interface Known {
  readonly changes: number | undefined
  readonly counts: JobCounts | undefined
  readonly hadJobs: boolean
}

/** The number of starts, and the milliseconds of their parts. */
type StartSums = Record<"starts" | "pull" | "create" | "start" | "setup" | "prepare", number>

const increase = (now: ReadonlyArray<number>, before: ReadonlyArray<number> | undefined): ReadonlyArray<number> =>
  now.map((count, index) => count - (before?.[index] ?? 0))

const NO_COUNTS: JobCounts = { submitted: 0, completed: 0, failed: 0, cancelled: 0, waits: [], executions: [] }

/** Two decimals are enough for a chart. */
const round = (value: number): number => Math.round(value * 100) / 100

const make = Effect.gen(function*() {
  const endpoints = yield* EndpointStore
  const jobs = yield* JobStore
  const registry = yield* WorkerRegistry
  const counters = yield* JobCounters
  const nodes = Option.getOrUndefined(yield* Effect.serviceOption(Nodes))
  const clock = yield* Clock.Clock
  const isShared = () => nodes?.hasOthers() ?? false

  const times = new Float64Array(KEPT)
  const sampled = new Map<string, Sampled>()
  let known = new Map<string, Known>()
  let next = 0
  let since: number | null = null

  /** The sums of the starts that have become ready since a time, by endpoint. */
  const startsSince = (time: number) => {
    const sums = new Map<string, StartSums>()
    for (const { endpoint, start } of registry.starts()) {
      if (start.readyAt === null || start.readyAt <= time) continue
      const parts = partsOf(start)
      const sum = sums.get(endpoint) ?? { starts: 0, pull: 0, create: 0, start: 0, setup: 0, prepare: 0 }
      sums.set(endpoint, sum)
      sum.starts += 1
      sum.pull += parts.pull ?? 0
      sum.create += parts.create
      sum.start += parts.start
      sum.setup += parts.setup ?? 0
      sum.prepare += parts.prepare
    }
    return sums
  }

  const sampleOf = Effect.fnUntraced(function*({ id }: Endpoint, now: number, starts: ReturnType<typeof startsSince>) {
    const before = known.get(id)
    const changes = counters.changes(id)
    const hasChanged = before === undefined || changes !== before.changes
    const mustRead = hasChanged || before.hadJobs || (isShared() && next % SHARED_READ === 0)
    const depth = mustRead ? yield* jobs.depth(id) : undefined
    const counts = hasChanged ? counters.read(id) : before.counts
    const current = counts ?? NO_COUNTS
    const earlier = before?.counts
    const since = (name: "submitted" | "completed" | "failed" | "cancelled") => current[name] - (earlier?.[name] ?? 0)
    const statuses = yield* registry.listAll(id)
    const hadJobs = depth !== undefined && depth.waiting + depth.delayed + depth.running > 0
    const { create = 0, prepare = 0, pull = 0, setup = 0, start = 0, starts: count = 0 } = starts.get(id) ?? {}
    const isBusy = hadJobs || statuses.length > 0 || count > 0 || (hasChanged && counts !== undefined)
    const sample: Sample | undefined = isBusy
      ? {
        columns: {
          waiting: depth?.waiting ?? 0,
          delayed: depth?.delayed ?? 0,
          running: depth?.running ?? 0,
          oldest: depth === undefined || depth.oldestQueuedAt === null ? 0 : Math.max(0, now - depth.oldestQueuedAt),
          submitted: since("submitted"),
          completed: since("completed"),
          failed: since("failed"),
          cancelled: since("cancelled"),
          starts: count,
          pull,
          create,
          start,
          setup,
          prepare
        },
        workers: {
          running: 0,
          idle: 0,
          initializing: 0,
          draining: 0,
          throttled: 0,
          unhealthy: 0,
          ...Object.fromEntries(STATES.map((state) => [state, statuses.filter((one) => one.state === state).length]))
        },
        waits: increase(current.waits, earlier?.waits),
        executions: increase(current.executions, earlier?.executions)
      }
      : undefined
    return { known: { changes, counts, hadJobs }, sample }
  })

  const store = (id: EndpointId, sample: Sample | undefined) => {
    let one = sampled.get(id)
    if (one === undefined) {
      if (sample === undefined || sampled.size >= MAX_SAMPLED) return
      sampled.set(id, one = { samples: new EndpointSamples(), lastBusy: next })
    }
    one.samples.set(next, sample)
    if (sample !== undefined) one.lastBusy = next
    else if (next - one.lastBusy >= KEPT) sampled.delete(id)
  }

  const take = Effect.gen(function*() {
    const now = clock.currentTimeMillisUnsafe()
    const all = yield* endpoints.recentList ?? endpoints.list
    const starts = startsSince(next === 0 ? now - STEP_MILLIS : times[(next - 1) % KEPT] ?? 0)
    // The counts of a sample that fails are in the next one.
    const taken = yield* Effect.forEach(
      all,
      (endpoint) => Effect.map(sampleOf(endpoint, now, starts), (found) => ({ id: endpoint.id, ...found })),
      { concurrency: "unbounded" }
    )
    known = new Map(taken.map(({ id, known }) => [id, known]))
    for (const id of sampled.keys()) if (!known.has(id)) sampled.delete(id)
    for (const { id, sample } of taken) store(id, sample)
    times[next % KEPT] = now
    since ??= now
    next += 1
  })

  yield* take.pipe(
    // The queue logs the store's failures, and the chart shows a gap.
    Effect.ignore,
    Effect.repeat(AlignedSleep.schedule(STEP_MILLIS)),
    Effect.delay(STEP_MILLIS),
    Effect.forkScoped
  )

  const timeOf = (sequence: number) => times[sequence % KEPT] ?? 0

  /** The time that samples cover, in seconds. */
  const secondsOf = (sequences: ReadonlyArray<number>): number => {
    const [first = 0] = sequences
    const begin = first === 0 ? timeOf(0) - STEP_MILLIS : timeOf(first - 1)
    return Math.max(0.001, (timeOf(sequences.at(-1) ?? first) - begin) / 1_000)
  }

  /** The newest sequence numbers, oldest first, in groups. A group keeps its samples when newer ones arrive. */
  const groupsOf = (count: number, size: number): ReadonlyArray<ReadonlyArray<number>> => {
    const oldest = Math.max(0, next - Math.min(count, KEPT - 1))
    const groups = new Map<number, Array<number>>()
    for (let sequence = oldest; sequence < next; sequence += 1) {
      const group = groups.get(Math.floor(sequence / size))
      if (group === undefined) groups.set(Math.floor(sequence / size), [sequence])
      else group.push(sequence)
    }
    return [...groups.values()]
  }

  const idle = new EndpointSamples()

  return {
    since: () => since,
    isShared,
    rates: () => {
      if (next === 0) return []
      const lastMinute = groupsOf(PER_MINUTE, 1).flat()
      const lastFive = groupsOf(5 * PER_MINUTE, 1).flat()
      const minutes = groupsOf(LINE_MINUTES * PER_MINUTE, PER_MINUTE)
      const seconds = secondsOf(lastMinute)
      return [...sampled].map(([id, { samples }]) => {
        const ended = (of: ReadonlyArray<number>) =>
          samples.sum(of, "completed") + samples.sum(of, "failed") + samples.sum(of, "cancelled")
        const waits = samples.buckets(lastFive, "waits")
        return {
          id,
          arrivals: round(samples.sum(lastMinute, "submitted") / seconds),
          ended: round(ended(lastMinute) / seconds),
          waitP50: percentile(waits, 0.5),
          waitP99: percentile(waits, 0.99),
          waiting: minutes.map((of) => samples.max(of, "waiting")),
          endedJobs: minutes.map(ended),
          failedJobs: minutes.map((of) => samples.sum(of, "failed"))
        }
      })
    },
    of: (endpoint: string, span: number) => {
      const samples = sampled.get(endpoint)?.samples ?? idle
      const count = span * PER_MINUTE
      const groups = groupsOf(count, Math.ceil(count / MAX_POINTS))
      const max = (column: Column) => groups.map((of) => samples.max(of, column))
      const perSecond = (column: Column) => groups.map((of) => round(samples.sum(of, column) / secondsOf(of)))
      const mean = (column: Column) =>
        groups.map((of) => {
          const starts = samples.sum(of, "starts")
          return starts === 0 ? null : round(samples.sum(of, column) / starts)
        })
      const percentiles = (of: "waits" | "executions") => {
        const buckets = groups.map((group) => samples.buckets(group, of))
        const at = (share: number) => buckets.map((one) => percentile(one, share))
        return { p50: at(0.5), p90: at(0.9), p99: at(0.99) }
      }
      const workers = (state: (typeof STATES)[number]) => groups.map((of) => samples.workers(of.at(-1) ?? 0, state))
      return {
        at: groups.map((of) => timeOf(of.at(-1) ?? 0)),
        waiting: max("waiting"),
        delayed: max("delayed"),
        running: max("running"),
        oldest: max("oldest").map(Math.round),
        submitted: perSecond("submitted"),
        completed: perSecond("completed"),
        failed: perSecond("failed"),
        cancelled: perSecond("cancelled"),
        waits: percentiles("waits"),
        executions: percentiles("executions"),
        starts: {
          count: groups.map((of) => samples.sum(of, "starts")),
          pull: mean("pull"),
          create: mean("create"),
          start: mean("start"),
          setup: mean("setup"),
          prepare: mean("prepare")
        },
        workers: {
          running: workers("running"),
          idle: workers("idle"),
          initializing: workers("initializing"),
          draining: workers("draining"),
          throttled: workers("throttled"),
          unhealthy: workers("unhealthy")
        }
      }
    }
  }
})

/** The samples of a node, in memory. */
export const layer: Layer.Layer<never, never, EndpointStore | JobStore | JobCounters | WorkerRegistry> = Layer.effect(
  EndpointHistories,
  make
)

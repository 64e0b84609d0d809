/**
 * The platform's state at the moment of a scrape: queues, workers, and the platform's own process. The values are read only at a scrape, so a
 * deleted endpoint is missing from the next one.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { WorkerRegistry, type WorkerState } from "@stint/queue/WorkerRegistry"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import process from "node:process"
import * as EventLoopDelay from "./EventLoopDelay.ts"
import { EndpointLabels } from "./MetricLabels.ts"

const STATES: ReadonlyArray<WorkerState> = ["initializing", "idle", "running", "draining", "unhealthy", "throttled"]

const waiting = Metric.gauge("stint_jobs_waiting", { description: "Jobs that are ready for a worker." })
const delayed = Metric.gauge("stint_jobs_delayed", {
  description: "Jobs that cannot be taken yet, because they wait for a backoff or their start time."
})
const running = Metric.gauge("stint_jobs_running", { description: "Jobs that a worker runs." })
const oldest = Metric.gauge("stint_oldest_job_wait_seconds", {
  description: "How long the oldest ready job has waited; 0 without one. Jobs with lowPriority do not count."
})
const workers = Metric.gauge("stint_workers", { description: "Workers by state." })
const workersMax = Metric.gauge("stint_workers_max", { description: "The endpoint's workers.max." })
const loopDelay = Metric.gauge("stint_event_loop_delay_seconds", {
  description: "How late timers of the platform's process run, since the last scrape."
})
const resident = Metric.gauge("process_resident_memory_bytes", { description: "Resident memory of the platform's process." })
const heap = Metric.gauge("stint_heap_used_bytes", { description: "Used JavaScript heap of the platform's process." })
const cpu = Metric.counter("process_cpu_seconds_total", { description: "CPU time of the platform's process.", incremental: true })
const started = Metric.gauge("process_start_time_seconds", {
  description: "When the platform's process started, in seconds since 1970."
})

/** The gauges of one scrape. */
class Scrape {
  readonly context = Context.make(Metric.MetricRegistry, new Map())

  set(metric: Metric.Metric<number, unknown>, value: number): void {
    metric.updateUnsafe(value, this.context)
  }

  /** Endpoints that share a label share their series, so their values are summed. */
  add(metric: Metric.Metric<number, unknown>, value: number): void {
    metric.modifyUnsafe(value, this.context)
  }

  setMax(metric: Metric.Gauge<number>, value: number): void {
    metric.updateUnsafe(Math.max(metric.valueUnsafe(this.context).value, value), this.context)
  }
}

const addProcess = (scrape: Scrape, delays: EventLoopDelay.Delays) => {
  for (const [percentile, seconds] of delays) {
    scrape.set(Metric.withAttributes(loopDelay, { percentile: String(percentile) }), seconds)
  }
  const { system, user } = process.cpuUsage()
  const { heapUsed, rss } = process.memoryUsage()
  scrape.set(cpu, (system + user) / 1e6)
  scrape.set(resident, rss)
  scrape.set(heap, heapUsed)
  scrape.set(started, Date.now() / 1_000 - process.uptime())
}

const make = Effect.gen(function*() {
  const endpoints = yield* EndpointStore
  const jobs = yield* JobStore
  const registry = yield* WorkerRegistry
  const clock = yield* Clock.Clock
  const delays = yield* EventLoopDelay.make([50, 99, 100])

  const addEndpoint = Effect.fnUntraced(function*(scrape: Scrape, labels: EndpointLabels, { id, workers: limits }: Endpoint) {
    const label = { endpoint: labels.of(id) }
    const depth = yield* jobs.depth(id)
    const statuses = yield* registry.list(id)
    const age = depth.oldestQueuedAt === null ? 0 : (clock.currentTimeMillisUnsafe() - depth.oldestQueuedAt) / 1_000
    scrape.add(Metric.withAttributes(waiting, label), depth.waiting)
    scrape.add(Metric.withAttributes(delayed, label), depth.delayed)
    scrape.add(Metric.withAttributes(running, label), depth.running)
    scrape.setMax(Metric.withAttributes(oldest, label), Math.max(0, age))
    scrape.add(Metric.withAttributes(workersMax, label), limits.max)
    for (const state of STATES) {
      const count = statuses.filter((status) => status.state === state).length
      scrape.add(Metric.withAttributes(workers, { ...label, state }), count)
    }
  })

  const take = Effect.gen(function*() {
    const scrape = new Scrape()
    const labels = new EndpointLabels()
    yield* Effect.forEach(yield* endpoints.list, (endpoint) => addEndpoint(scrape, labels, endpoint), {
      concurrency: "unbounded",
      discard: true
    })
    addProcess(scrape, yield* delays.read)
    return scrape.context
  })
  return PlatformGauges.of({ take })
})

/** Reads the platform's state. */
export class PlatformGauges extends Context.Service<PlatformGauges, {
  /** Returns a context whose metric registry contains the gauges. */
  readonly take: Effect.Effect<Context.Context<never>, StoreError>
}>()("@stint/metrics/PlatformGauges") {}

export const layer: Layer.Layer<PlatformGauges, never, EndpointStore | JobStore | WorkerRegistry> = Layer.effect(
  PlatformGauges,
  make
)

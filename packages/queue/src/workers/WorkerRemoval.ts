/**
 * Drains and stops single workers at the request of an operator.
 *
 * ```
 *   removeWorker --> registry of this node: takes no more jobs --> autoscaler: requests the exit, or kills
 *        |---------> hint ----------------> the other nodes do the same
 *        |---------> stop of a worker that no pool started: it loses its jobs, and receives stop signals
 *        <---------- reports of the other nodes confirm it
 * ```
 *
 * A worker may call any node, and its pool is on one of them, so all nodes must know. Hints may be lost. The request is therefore complete when every
 * node that reports the worker also reports the request, and is repeated until then.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { JobStore } from "@stint/store/JobStore"
import type { Nodes } from "@stint/store/Nodes"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { JobNotifier } from "../events/JobNotifier.ts"
import { wakeDraining } from "./LeaseOperations.ts"
import * as WorkerHints from "./WorkerHints.ts"
import type { Leaving, WorkerRegistry, WorkerStatus } from "./WorkerRegistry.ts"

/** The endpoint has no worker with this id. */
export class WorkerMissing extends Schema.TaggedError<WorkerMissing>()("WorkerMissing", { worker: Schema.String }) {
  override get message(): string {
    return `no worker ${this.worker}`
  }
}

/** Another node knows the worker, but has not confirmed the request in time. */
export class NodeSilent extends Schema.TaggedError<NodeSilent>()("NodeSilent", { worker: Schema.String }) {
  override get message(): string {
    return `another node has not confirmed the removal of worker ${this.worker}`
  }
}

/** The queue's operations on single workers. */
export interface WorkerRemoval {
  /**
   * The worker takes no more jobs. With `drain`, it exits after its current ones; with `stop`, it is killed, and each of its jobs loses an
   * attempt. The process of a worker that no pool started cannot be ended: it gets no more jobs, and with `stop` loses its current ones. Returns
   * the worker as it is afterwards.
   */
  readonly removeWorker: (
    endpoint: EndpointId,
    worker: string,
    leaving: Leaving
  ) => Effect.Effect<WorkerStatus, StoreError | WorkerMissing | NodeSilent>
}

interface Dependencies {
  readonly store: JobStore["Service"]
  readonly registry: WorkerRegistry["Service"]
  readonly notifier: JobNotifier
  readonly now: () => number
  readonly random: () => number
  readonly nodes?: Nodes["Service"] | undefined
}

/** The interval at which the other nodes' reports are read, and how many times. A node reports every second. */
const CONFIRMATION = { schedule: Schedule.spaced("250 millis"), times: 20 }

/** A failed start is shown as a worker, but there is none. */
const isFailedStart = ({ jobs, pooled, state }: WorkerStatus): boolean =>
  state === "throttled" || (state === "unhealthy" && pooled === undefined && jobs.length === 0)

/** Creates the operation. */
export const make = ({ nodes, notifier, now, random, registry, store }: Dependencies): WorkerRemoval => {
  const leave = (endpoint: EndpointId, worker: string, leaving: Leaving) => {
    registry.leave(endpoint, worker, leaving)
    wakeDraining(notifier, endpoint, worker)
  }
  WorkerHints.subscribe(nodes, "leaving", (endpoint, worker, leaving) => {
    if (leaving === "drain" || leaving === "stop") leave(endpoint, worker, leaving)
  })

  const find = (endpoint: EndpointId, worker: string) =>
    Effect.map(registry.listAll(endpoint), (all) => all.find(({ id }) => id === worker))

  /** Repeats the hint until every other node that reports the worker has reported the request. */
  const confirmed = (endpoint: EndpointId, worker: string, leaving: Leaving) =>
    Effect.suspend(() => {
      const isKnown = ({ leaving: asked }: WorkerStatus) => asked === "stop" || asked === leaving
      if (registry.reported(endpoint, worker).every(isKnown)) return Effect.void
      WorkerHints.publish(nodes, "leaving", endpoint, worker, leaving)
      return Effect.fail(new NodeSilent({ worker }))
    }).pipe(Effect.retry(CONFIRMATION))

  /** Takes the jobs of a worker that the platform cannot end. An operator ended the attempts, so none of the jobs is to blame. */
  const loseJobs = (endpoint: EndpointId, worker: string) =>
    Effect.uninterruptible(Effect.flatMap(
      store.applyRunning({ endpoint, worker }, {
        _tag: "LoseLease",
        now: now(),
        endpoint,
        worker,
        cause: `Worker ${worker} was stopped by an operator.`,
        random: random(),
        blameless: true
      }),
      (applied) => notifier.notifyAll(applied, undefined, true)
    ))

  return {
    removeWorker: Effect.fnUntraced(function*(endpoint, worker, leaving) {
      const found = yield* find(endpoint, worker)
      if (found === undefined || isFailedStart(found)) return yield* new WorkerMissing({ worker })
      leave(endpoint, worker, leaving)
      WorkerHints.publish(nodes, "leaving", endpoint, worker, leaving)
      if (leaving === "stop" && found.pooled === undefined) yield* loseJobs(endpoint, worker)
      yield* confirmed(endpoint, worker, leaving)
      return (yield* find(endpoint, worker)) ?? { ...found, state: "draining", jobs: [] }
    })
  }
}

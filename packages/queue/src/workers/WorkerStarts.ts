/**
 * When the workers of this process's pools were started. This explains why a job waited.
 *
 * ```
 *   requested ---> has its image ---> created ---> called ---> setup begins ---> ready
 *     (autoscaler)   (pool)             (pool)       (first call)  (its notice)      (first request for a job)
 * ```
 *
 * In memory only, and bounded: the last {@link REMEMBERED} workers. A worker's own calls create no entry, so a caller cannot displace others.
 */
import type { EndpointId } from "@stint/contract/Ids"
import * as Context from "effect/Context"

/** Wall-clock times in milliseconds since 1970, like those of jobs. Null until the event has happened. */
export interface WorkerStart {
  readonly requestedAt: number
  /** When the pull of its image had ended. Absent if no pull was needed. */
  pulledAt?: number
  /** When the pool had created the worker's process. */
  createdAt: number | null
  /** Present when its process had been started in advance. */
  standby?: boolean
  calledAt: number | null
  /** When the worker reported that its setup began. Absent for a worker without one. */
  setupAt?: number
  /** When the worker first asked for a job. Stint's SDK makes its first call only then. */
  readyAt: number | null
}

/** The start of an endpoint's worker. */
export interface EndpointStart {
  readonly endpoint: EndpointId
  readonly start: Readonly<WorkerStart>
}

/** The parts of a start, in milliseconds. Without `pull` or `setup`: the start had no such part. */
export interface StartParts {
  readonly pull?: number
  readonly create: number
  readonly start: number
  readonly setup?: number
  readonly prepare: number
}

/** The parts of a start whose worker is ready. Their sum is the time from the request of the worker until it asked for a job. */
export const partsOf = ({ calledAt, createdAt, pulledAt, readyAt, requestedAt, setupAt }: Readonly<WorkerStart>): StartParts => {
  const pulled = pulledAt ?? requestedAt
  const created = createdAt ?? pulled
  const called = Math.max(created, calledAt ?? created)
  const ready = readyAt ?? called
  return {
    ...(pulledAt === undefined ? {} : { pull: Math.max(0, pulled - requestedAt) }),
    create: Math.max(0, created - pulled),
    start: called - created,
    ...(setupAt === undefined ? {} : { setup: Math.max(0, ready - setupAt) }),
    prepare: Math.max(0, (setupAt ?? ready) - called)
  }
}

/** Called when a worker that a pool has started first asks for a job. Default: does nothing. */
export const StartObserver = Context.Reference<(start: EndpointStart) => void>("@stint/queue/StartObserver", {
  defaultValue: () => () => {}
})

/** The number of workers whose start is remembered, even after their exit. About 200 bytes each. */
export const REMEMBERED = 1_000

export interface WorkerStarts {
  readonly requested: (endpoint: EndpointId, worker: string, at: number) => WorkerStart
  /** All remembered starts. */
  readonly all: () => Iterable<EndpointStart>
  readonly find: (endpoint: EndpointId, worker: string) => WorkerStart | undefined
}

export const make = (): WorkerStarts => {
  const starts = new Map<string, EndpointStart>()
  const keyOf = (endpoint: EndpointId, worker: string) => `${endpoint}/${worker}`
  return {
    requested: (endpoint, worker, at) => {
      const start: WorkerStart = { requestedAt: at, createdAt: null, calledAt: null, readyAt: null }
      starts.set(keyOf(endpoint, worker), { endpoint, start })
      if (starts.size > REMEMBERED) {
        for (const oldest of starts.keys()) {
          starts.delete(oldest)
          break
        }
      }
      return start
    },
    all: () => starts.values(),
    find: (endpoint, worker) => starts.get(keyOf(endpoint, worker))?.start
  }
}

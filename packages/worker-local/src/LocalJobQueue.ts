/**
 * The memory store and the job queue for local test mode. They differ from a platform's in three ways:
 *
 * - Job ids start with `test-` (docs/spec/jobs-api.md#job-ids).
 * - A result that requests a fresh worker has no effect, because there is no pool that could start one.
 * - An ended job is removed when its retention expires, or earlier when newer jobs exceed {@link MAX_FINISHED_JOBS} or {@link
 *   MAX_FINISHED_CHARACTERS}.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import { JobQueue } from "@stint/queue/JobQueue"
import { delayTime, executionTime } from "@stint/store/JobMachine"
import { type ApplyResult, JobStore } from "@stint/store/JobStore"
import { REQUEST_ID } from "@stint/worker/Logger"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** The maximum number of ended jobs that can be read. */
export const MAX_FINISHED_JOBS = 1_000

/** The maximum total size of the results and chunks of ended jobs, in characters. The newest job is stored regardless of its size. */
const MAX_FINISHED_CHARACTERS = 256 * 1024 * 1024

/** A `Tick` with this time is later than the retention of every job, so it removes an ended job. */
const AFTER_RETENTION = Number.MAX_SAFE_INTEGER

/** Wraps the given store so that it also logs the end of each job and removes the oldest ended jobs. */
export const layerStore: Layer.Layer<JobStore, never, JobStore> = Layer.effect(
  JobStore,
  Effect.map(JobStore, (store) => {
    /** The total size of each job's chunks. */
    const streamed = new Map<JobId, number>()
    /** The size of each ended job, oldest end first. */
    const finished = new Map<JobId, number>()
    let characters = 0

    const forget = (id: JobId) => {
      characters -= finished.get(id) ?? 0
      finished.delete(id)
    }

    const evict = Effect.fnUntraced(function*(endpoint: EndpointId) {
      for (const oldest of finished.keys()) {
        if (finished.size === 1 || (finished.size <= MAX_FINISHED_JOBS && characters <= MAX_FINISHED_CHARACTERS)) return
        forget(oldest)
        yield* store.apply(endpoint, oldest, { _tag: "Tick", now: AFTER_RETENTION, random: 0 })
      }
    })

    const changed = Effect.fnUntraced(function*(applied: ApplyResult, output = 0) {
      if (applied._tag === "Removed") return forget(applied.before.id)
      if (applied._tag !== "Changed") return
      const { after, before } = applied
      // A retry starts an ended job again.
      forget(after.id)
      if (!isTerminal(after.status)) return
      const size = output + (streamed.get(after.id) ?? 0)
      streamed.delete(after.id)
      finished.set(after.id, size)
      characters += size
      if (isTerminal(before.status)) return
      yield* Effect.annotateLogs(
        Effect.logDebug(
          `${after.id}: ${after.status} (waited ${delayTime(after) ?? 0} ms, ran ${executionTime(after) ?? 0} ms).`
        ),
        REQUEST_ID,
        after.id
      )
      yield* evict(after.endpoint)
    })

    const allChanged = (applied: ReadonlyArray<ApplyResult>) => Effect.forEach(applied, (one) => changed(one), { discard: true })

    return JobStore.of({
      ...store,
      apply: (endpoint, id, event) =>
        Effect.tap(
          store.apply(endpoint, id, event),
          (applied) => changed(applied, event._tag === "Finish" ? event.output?.length : undefined)
        ),
      append: (endpoint, id, event, body) =>
        Effect.tap(store.append(endpoint, id, event, body), (applied) =>
          Effect.sync(() => {
            if (applied._tag === "Changed") streamed.set(id, (streamed.get(id) ?? 0) + body.length)
          })),
      tick: (event, limit) => Effect.tap(store.tick(event, limit), allChanged),
      applyRunning: (filter, event) => Effect.tap(store.applyRunning(filter, event), allChanged),
      applyWaiting: (endpoint, event, limit) => Effect.tap(store.applyWaiting(endpoint, event, limit), allChanged)
    })
  })
)

/**
 * Wraps the given queue so that job ids start with `test-`, and so that a result that requests a fresh worker does not drain the worker.
 */
export const layer: Layer.Layer<JobQueue, never, JobQueue> = Layer.effect(
  JobQueue,
  Effect.map(JobQueue, (queue) => {
    let logged = false
    return JobQueue.of({
      ...queue,
      submit: (submission) => queue.submit({ ...submission, id: JobId.make(`test-${crypto.randomUUID()}`) }),
      drainWorker: () =>
        Effect.suspend(() => {
          const line = "The handler asked for a fresh worker. A platform would start one; the local API continues with this one."
          const log = logged ? Effect.logDebug(line) : Effect.logInfo(line)
          logged = true
          return log
        })
    })
  })
)

/**
 * The duty that removes orphaned objects, which are objects that no row refers to.
 *
 * ```
 *   list OWNER/ --by job--> young?     kept: its commit may be in flight, even in another process
 *                           pinned?    kept: its commit is in flight
 *                           a job?     kept
 *                           a webhook? kept: a delivery that may be sent or resent refers to it
 *                           else       removed
 * ```
 *
 * A sweep finds the objects of removed jobs (retention, time to live), of submissions that a crash interrupted between the object and the row, and of
 * rejected writes. Objects that a stored job no longer needs, such as the output of an attempt before a retry, are removed with the job. A key is
 * never reused, so an orphan stays an orphan.
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { JobStore } from "@stint/store/JobStore"
import * as OutageLog from "@stint/store/OutageLog"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { JobPayloads } from "./JobPayloads.ts"
import type { PayloadKey } from "./PayloadStore.ts"
import { PayloadStore } from "./PayloadStore.ts"

/** How often the sweep runs, and which objects are exempt. */
export interface Options {
  /**
   * Default: 1 hour. A shorter interval frees space sooner but lists the store more often, which takes one request per 1,000 objects in a
   * bucket.
   */
  readonly interval?: Duration.Input
  /** Younger objects are kept. Default: 1 hour. If several processes write, it must be longer than any commit takes. */
  readonly minAge?: Duration.Input
  /** Held during each sweep. A backup holds it while it reads the objects, so that no object that it needs is removed. */
  readonly lock?: Semaphore.Semaphore
}

const isEndpointId = Schema.is(EndpointId)
const isJobId = Schema.is(JobId)

/** The number of keys that are checked at once, and the number of concurrent removals. */
const PAGE = 200
const REMOVERS = 8

/** `OWNER/ENDPOINT/JOB/KIND.TIME.RANDOM`; undefined for any other key. */
const readKey = (key: PayloadKey): { readonly endpoint: EndpointId; readonly job: JobId; readonly at: number } | undefined => {
  const [, endpoint, job, at] = /^[^/]+\/([^/]+)\/([^/]+)\/[a-z0-9]+\.(\d{1,15})\.[^/]+$/.exec(key) ?? []
  return isEndpointId(endpoint) && isJobId(job) ? { endpoint, job, at: Number(at) } : undefined
}

/** Removes the current orphans once and returns their number. Requires the job store without payloads, so that it reads no objects. */
export const sweep = Effect.fn("PayloadSweep.sweep")(function*(minAge: Duration.Input) {
  const payloads = yield* JobPayloads
  const store = yield* PayloadStore
  const jobs = yield* JobStore
  const webhooks = yield* WebhookStore
  const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(minAge)

  const isNeeded = Effect.fnUntraced(function*(endpoint: EndpointId, job: JobId) {
    if (payloads.isPinned(job)) return true
    if ((yield* jobs.get(endpoint, job)) !== undefined) return true
    return (yield* webhooks.list({ endpoint, job, limit: 1 })).deliveries.length > 0
  })

  let removed = 0
  yield* store.list(payloads.owner).pipe(
    Stream.grouped(PAGE),
    Stream.runForEach(Effect.fnUntraced(function*(keys) {
      const needed = new Map<string, boolean>()
      const orphans: Array<PayloadKey> = []
      for (const key of keys) {
        const about = readKey(key)
        if (about === undefined || about.at > before) continue
        const owner = `${about.endpoint}/${about.job}`
        if (!needed.has(owner)) needed.set(owner, yield* isNeeded(about.endpoint, about.job))
        if (needed.get(owner) === false) orphans.push(key)
      }
      yield* Effect.forEach(orphans, (key) => store.remove(key), { concurrency: REMOVERS, discard: true })
      removed += orphans.length
      // Let other fibers run: there may be very many keys.
      yield* Effect.yieldNow
    }))
  )
  return removed
})

/** The duty as a layer. It sweeps while the layer's scope is open. A failed sweep is retried after the interval. */
export const layer = (options: Options = {}): Layer.Layer<never, never, JobPayloads | PayloadStore | JobStore | WebhookStore> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const lock = options.lock ?? Semaphore.makeUnsafe(1)
    const interval = options.interval ?? "1 hour"
    const outage = OutageLog.make({
      onFailure: (problem) =>
        Effect.logWarning(
          `Orphaned payloads could not be removed: ${problem}. They take up space until a later sweep removes them.`
        )
    })
    yield* sweep(options.minAge ?? "1 hour").pipe(
      Effect.tap((removed) => removed === 0 ? Effect.void : Effect.logDebug(`${removed} orphaned payloads were removed.`)),
      outage.watch,
      lock.withPermits(1),
      Effect.repeat(Schedule.spaced(interval)),
      Effect.forkScoped
    )
  }))

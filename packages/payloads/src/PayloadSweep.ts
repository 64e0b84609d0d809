/**
 * The duty that removes objects which nothing refers to any more.
 *
 * ```
 *   list OWNER/ --by job--> young?     kept: its commit may be on its way, of another process even
 *                           pinned?    kept: its commit is on its way
 *                           a job?     kept
 *                           a webhook? kept: what is to be sent, or sent again, refers to it
 *                           else       removed
 * ```
 *
 * Objects of removed jobs (retention, time to live), of submissions that a crash cut between the object and the row, and of writes that were refused: one look
 * finds them all, whenever they came about, and again after a restart. What a living job does not need any more (the output of an attempt before a retry) goes with
 * the job. A key is never used twice, so what is listed and belongs to nobody now belongs to nobody for ever.
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { JobStore } from "@stint/store/JobStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { JobPayloads } from "./JobPayloads.ts"
import type { PayloadKey } from "./PayloadStore.ts"
import { PayloadStore } from "./PayloadStore.ts"

/** How often, and what is left alone. */
export interface Options {
  /** Default: 1 hour. More often frees space sooner, and lists the whole store more often: a request for each 1,000 objects of a bucket. */
  readonly interval?: Duration.Input
  /** Objects younger than this stay. Default: 1 hour. Longer than any commit takes, where several processes write. */
  readonly minAge?: Duration.Input
}

const isEndpointId = Schema.is(EndpointId)
const isJobId = Schema.is(JobId)

/** What is looked at, and removed, at once. */
const PAGE = 200
const REMOVERS = 8

/** `OWNER/ENDPOINT/JOB/KIND.TIME.RANDOM`; undefined for any other key. */
const readKey = (key: PayloadKey): { readonly endpoint: EndpointId; readonly job: JobId; readonly at: number } | undefined => {
  const [, endpoint, job, at] = /^[^/]+\/([^/]+)\/([^/]+)\/[a-z0-9]+\.(\d{1,15})\.[^/]+$/.exec(key) ?? []
  return isEndpointId(endpoint) && isJobId(job) ? { endpoint, job, at: Number(at) } : undefined
}

/** Looks once; how many objects were removed. The job store is the one without payloads: nothing is read of the payload store but its list. */
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
      // The event loop gets its turn: there may be very many.
      yield* Effect.yieldNow
    }))
  )
  return removed
})

/** The duty as a layer: it runs while the layer's scope is open. What fails is tried again at the next look. */
export const layer = (options: Options = {}): Layer.Layer<never, never, JobPayloads | PayloadStore | JobStore | WebhookStore> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const interval = options.interval ?? "1 hour"
    let failing = false
    yield* sweep(options.minAge ?? "1 hour").pipe(
      Effect.tap((removed) => {
        failing = false
        return removed === 0 ? Effect.void : Effect.logDebug(`${removed} payloads of jobs that are gone were removed.`)
      }),
      Effect.catchCause((cause) => {
        if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
        const first = !failing
        failing = true
        const error = Cause.squash(cause)
        return first
          ? Effect.logWarning(
            `Payloads of jobs that are gone could not be removed: ${error instanceof Error ? error.message : String(error)}. ` +
              "They take up space until they are; trying again at every look."
          )
          : Effect.void
      }),
      Effect.andThen(Effect.sleep(interval)),
      Effect.forever,
      Effect.forkScoped
    )
  }))

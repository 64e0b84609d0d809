/**
 * What the queue cannot do, in the words of the API.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { Conflict, EndpointNotFound, InvalidRequest, JobNotFound, problemMembers, Unavailable } from "@stint/contract/Problem"
import { EndpointStore } from "@stint/store/EndpointStore"
import {
  type ChunkGap,
  type EndpointGone,
  type IdempotencyConflict,
  type InvalidCursor,
  type LeaseLost,
  type NotRetryable,
  type PayloadMemoryFull,
  type PayloadUnavailable,
  QueueError,
  type StoreUnavailable
} from "@stint/store/QueueError"
import * as Effect from "effect/Effect"
import { memoryFull, setRetryAfter } from "./BodyAdmission.ts"
import { excerpt } from "./ProblemJson.ts"

const unavailable = (reason: StoreUnavailable) =>
  Effect.andThen(
    Effect.logError(`The job store failed in ${reason.operation}. Nothing of this request was kept.`, reason.cause),
    new Unavailable(problemMembers(
      "The platform cannot reach its job store; nothing of this request was kept.",
      "Send the request again in a few seconds. If this lasts, look at the platform's log: the disk may be full."
    ))
  )

/** The store of large payloads does not answer. */
const payloadUnavailable = ({ operation, problem }: PayloadUnavailable) =>
  Effect.andThen(
    Effect.logError(
      `The object store failed in ${operation}: ${problem}. ${
        operation === "put" ? "Nothing of this request was kept." : "What is kept there cannot be shown."
      }`
    ),
    Effect.andThen(
      setRetryAfter(5),
      new Unavailable(problemMembers(
        operation === "put"
          ? "The platform cannot reach its object store for large payloads; nothing of this request was kept."
          : "The platform cannot reach its object store, where a large payload of this job is kept. The job itself is as it was.",
        "Send the request again in a few seconds. If this lasts, look at the platform's log."
      ))
    )
  )

/** What cannot be done now, and may be soon. */
const temporary = (
  reason: StoreUnavailable | PayloadUnavailable | PayloadMemoryFull
): Effect.Effect<never, Unavailable> => {
  switch (reason._tag) {
    case "StoreUnavailable":
      return unavailable(reason)
    case "PayloadUnavailable":
      return payloadUnavailable(reason)
    case "PayloadMemoryFull":
      return memoryFull(reason.bytes)
  }
}

/** 404 for the id of a job. */
export const jobNotFound = (id: string): JobNotFound =>
  new JobNotFound(problemMembers(
    `There is no job "${excerpt(id)}" on this endpoint.`,
    "Check the id and the endpoint. Finished jobs are kept for the endpoint's retention (24 hours unless set otherwise), then forgotten."
  ))

const leaseLost = (reason: LeaseLost) =>
  new Conflict(problemMembers(
    `Worker "${excerpt(reason.worker)}" does not hold job "${reason.id}"${
      reason.holder === null ? "" : `; worker "${reason.holder}" does`
    }. What it sent was not kept.`,
    "The worker was silent for longer than its lease, or the job was ended. Drop the job and take another."
  ))

const notRetryable = (reason: NotRetryable) =>
  new Conflict(problemMembers(
    `Job "${reason.id}" is ${reason.status}; only FAILED and TIMED_OUT jobs can be retried.`,
    "Submit a new job with the same input."
  ))

const keyTaken = (reason: IdempotencyConflict) =>
  new Conflict(problemMembers(
    `The idempotency key "${excerpt(reason.key)}" stands for another request: job "${reason.id}" was made from it.`,
    "Send the same request again to get that job, or choose another key for another request."
  ))

const chunkGap = (reason: ChunkGap) =>
  new Conflict(problemMembers(
    `Chunk ${reason.chunk} of job "${reason.id}" came before chunk ${reason.expected}. It was not kept.`,
    "Send the missing chunk first."
  ))

const endpointGone = (reason: EndpointGone) =>
  new EndpointNotFound(problemMembers(
    `The endpoint "${excerpt(reason.endpoint)}" was deleted while the request was on its way. Nothing of it was kept.`,
    "Create the endpoint anew, or send the request to another."
  ))

/** For calls about one job. */
export const mapJobErrors = <A, R>(
  effect: Effect.Effect<A, QueueError, R>
): Effect.Effect<A, Unavailable | JobNotFound | Conflict, R> =>
  Effect.catchTag(effect, "QueueError", ({ reason }): Effect.Effect<never, Unavailable | JobNotFound | Conflict> => {
    switch (reason._tag) {
      case "StoreUnavailable":
      case "PayloadUnavailable":
      case "PayloadMemoryFull":
        return temporary(reason)
      case "JobMissing":
        return Effect.fail(jobNotFound(reason.id))
      case "LeaseLost":
        return Effect.fail(leaseLost(reason))
      case "NotRetryable":
        return Effect.fail(notRetryable(reason))
      case "IdempotencyConflict":
        return Effect.fail(keyTaken(reason))
      case "ChunkGap":
        return Effect.fail(chunkGap(reason))
      case "EndpointGone":
      case "InvalidCursor":
        // Of submissions and lists, which are not about one job.
        return Effect.die(new QueueError({ reason }))
    }
  })

/** For calls where nothing but the stores can fail. */
export const mapStoreErrors = <A, R>(effect: Effect.Effect<A, QueueError, R>): Effect.Effect<A, Unavailable, R> =>
  Effect.catchTag(effect, "QueueError", (error): Effect.Effect<never, Unavailable> => {
    switch (error.reason._tag) {
      case "StoreUnavailable":
      case "PayloadUnavailable":
      case "PayloadMemoryFull":
        return temporary(error.reason)
      default:
        return Effect.die(error)
    }
  })

/** For submissions. */
export const mapSubmitErrors = <A, R>(
  effect: Effect.Effect<A, QueueError, R>
): Effect.Effect<A, Unavailable | EndpointNotFound | Conflict, R> =>
  Effect.catchTag(effect, "QueueError", ({ reason }): Effect.Effect<never, Unavailable | EndpointNotFound | Conflict> => {
    switch (reason._tag) {
      case "EndpointGone":
        return Effect.fail(endpointGone(reason))
      case "IdempotencyConflict":
        return Effect.fail(keyTaken(reason))
      default:
        return mapStoreErrors(Effect.fail(new QueueError({ reason })))
    }
  })

/** 400 for a cursor or a position that nobody gave out. */
export const invalidCursor = ({ value, what }: Pick<InvalidCursor, "value" | "what">): InvalidRequest =>
  new InvalidRequest({
    ...problemMembers(
      `"${excerpt(value)}" is no ${what === "cursor" ? "cursor of a list" : "id of an event"} that this platform gave out.`,
      what === "cursor"
        ? "Send the `cursor` of the page before as it was, or none to begin anew."
        : "Send the id of the last event as it was, or none to be told everything."
    ),
    errors: [{ path: [what === "cursor" ? "cursor" : "Last-Event-ID"], message: `expected a ${what} of this platform` }]
  })

/** For lists. */
export const mapListErrors = <A, R>(effect: Effect.Effect<A, QueueError, R>): Effect.Effect<A, Unavailable | InvalidRequest, R> =>
  Effect.catchTag(
    effect,
    "QueueError",
    (error): Effect.Effect<never, Unavailable | InvalidRequest> =>
      error.reason._tag === "InvalidCursor" ? Effect.fail(invalidCursor(error.reason)) : mapStoreErrors(Effect.fail(error))
  )

/** For calls about one job that need no lease and change nothing that could conflict. */
export const mapLookupErrors = <A, R>(effect: Effect.Effect<A, QueueError, R>): Effect.Effect<A, Unavailable | JobNotFound, R> =>
  Effect.catchTag(mapJobErrors(effect), "Conflict", Effect.die)

/** Finds the endpoint that a request names. */
export const endpointFinder = Effect.map(
  EndpointStore,
  (endpoints) =>
    Effect.fnUntraced(function*(id: string): Effect.fn.Return<Endpoint, EndpointNotFound | Unavailable> {
      const endpoint = yield* mapStoreErrors(endpoints.get(id))
      if (endpoint !== undefined) return endpoint
      const known = (yield* mapStoreErrors(endpoints.list)).map((one) => one.id)
      return yield* new EndpointNotFound(problemMembers(
        `There is no endpoint "${excerpt(id)}" here.`,
        known.length === 0
          ? "Create it: stint endpoints create NAME --handler FILE."
          : `Endpoints here: ${known.slice(0, 20).join(", ")}. Create another with: stint endpoints create NAME --handler FILE.`
      ))
    })
)

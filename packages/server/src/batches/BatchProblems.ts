/**
 * What cannot be done with batches, in the words of the API.
 */
import { BatchNotFound } from "@stint/contract/BatchApi"
import { Conflict, type EndpointNotFound, problemMembers, type Unavailable } from "@stint/contract/Problem"
import type { BatchMissing, ChangeError, QueueFull, RequestMissing, TooManyBatches } from "@stint/queue/BatchErrors"
import type { EndpointGone } from "@stint/queue/JobErrors"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import { excerpt } from "../http/ProblemJson.ts"
import { mapStoreErrors, mapSubmitErrors } from "../http/QueueProblems.ts"

const wrongStatus = {
  NotDraft: (id: string, status: string) =>
    new Conflict(problemMembers(
      `Batch "${id}" is ${status}; requests can be added to a draft and taken out of it, and it is none any more.`,
      "Put further requests into another batch. To drop one that waits, cancel its job: POST /v2/{endpoint}/cancel/{request}."
    )),
  Cancelled: (id: string, status: string) =>
    new Conflict(problemMembers(`Batch "${id}" is ${status} and cannot be started any more.`, "Make another batch of its requests.")),
  Ended: (id: string, status: string) =>
    new Conflict(problemMembers(
      `Batch "${id}" is ${status}; its webhook was told, or nobody was.`,
      "Ask for the batch instead: GET /v2/{endpoint}/batch/{id}. Its name can still be changed."
    ))
} as const

const batchMissing = ({ id }: BatchMissing): BatchNotFound =>
  new BatchNotFound(problemMembers(
    `There is no batch "${excerpt(id)}" on this endpoint.`,
    "Check the id and the endpoint. Batches that have ended are kept for the endpoint's retention (24 hours unless set otherwise), then forgotten."
  ))

const problemOf = (
  reason: ChangeError | RequestMissing | TooManyBatches | QueueFull
): BatchNotFound | Conflict => {
  switch (reason._tag) {
    case "BatchMissing":
      return batchMissing(reason)
    case "RequestMissing":
      return new BatchNotFound(problemMembers(
        `Batch "${excerpt(reason.id)}" has no request "${excerpt(reason.request)}".`,
        "The ids of its requests: GET /v2/{endpoint}/batch/{id}/requests."
      ))
    case "WrongStatus":
      return wrongStatus[reason.rejection](excerpt(reason.id), reason.status)
    case "BatchTooLarge":
      return tooManyRequests(reason.limit)
    case "TooManyBatches":
      return new Conflict(problemMembers(
        `The endpoint has ${reason.open} batches that have not ended; ${reason.limit} are allowed, drafts included.`,
        "Wait until one has ended, or cancel one: POST /v2/{endpoint}/batch/{id}/cancel. GET /v2/{endpoint}/batch lists them. " +
          "Or have the platform's operator raise the limit (STINT_BATCHES)."
      ))
    case "QueueFull":
      return new Conflict(problemMembers(
        `With batch "${
          excerpt(reason.id)
        }" more than ${reason.limit} jobs would wait on this endpoint; ${reason.queued} wait already.`,
        "The batch stays a draft. Finalize it when fewer jobs wait (GET /v2/{endpoint}/health), or split it. " +
          "Or have the platform's operator raise the limit (STINT_BATCH_QUEUED)."
      ))
  }
}

/** 409 for more requests than a batch may have. */
export const tooManyRequests = (limit: number): Conflict =>
  new Conflict(problemMembers(
    `The batch would have more than ${limit} requests, which is the limit. Nothing of this call was kept.`,
    "Put the rest into another batch. Or have the platform's operator raise the limit (STINT_BATCH_REQUESTS)."
  ))

/** For calls that make or start a batch. */
export const mapBatchStartErrors = <A, R>(
  effect: Effect.Effect<A, StoreError | EndpointGone | ChangeError | TooManyBatches | QueueFull, R>
): Effect.Effect<A, BatchNotFound | Conflict | EndpointNotFound | Unavailable, R> =>
  Effect.catch(
    effect,
    (error): Effect.Effect<never, BatchNotFound | Conflict | EndpointNotFound | Unavailable> =>
      error._tag === "StoreError" || error._tag === "EndpointGone"
        ? mapSubmitErrors(Effect.fail(error))
        : Effect.fail(problemOf(error))
  )

/** For calls that change a batch. */
export const mapBatchChangeErrors = <A, R>(
  effect: Effect.Effect<A, StoreError | ChangeError | RequestMissing, R>
): Effect.Effect<A, BatchNotFound | Conflict | Unavailable, R> =>
  Effect.catch(
    effect,
    (error): Effect.Effect<never, BatchNotFound | Conflict | Unavailable> =>
      error._tag === "StoreError" ? mapStoreErrors(Effect.fail(error)) : Effect.fail(problemOf(error))
  )

/** For calls that look, and for those that nothing can be in the way of. */
export const mapBatchLookupErrors = <A, R>(
  effect: Effect.Effect<A, StoreError | BatchMissing, R>
): Effect.Effect<A, BatchNotFound | Unavailable, R> =>
  Effect.catch(
    effect,
    (error): Effect.Effect<never, BatchNotFound | Unavailable> =>
      error._tag === "StoreError" ? mapStoreErrors(Effect.fail(error)) : Effect.fail(batchMissing(error))
  )

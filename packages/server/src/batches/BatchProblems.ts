/**
 * Maps errors of batches to the API's problems.
 */
import { BatchNotFound } from "@stint/contract/BatchApi"
import { type BudgetReached, Conflict, type EndpointNotFound, problemMembers, type Unavailable } from "@stint/contract/Problem"
import type { BatchMissing, ChangeError, QueueFull, RequestMissing, TooManyBatches } from "@stint/queue/BatchErrors"
import type { BudgetReached as QueueBudgetReached, EndpointGone } from "@stint/queue/JobErrors"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import { excerpt } from "../http/ProblemJson.ts"
import { budgetReached, endpointGone, mapStoreErrors } from "../http/QueueProblems.ts"

const wrongStatus = {
  NotDraft: (id: string, status: string) =>
    new Conflict(problemMembers(
      `Batch "${id}" is ${status}. Requests can be added to and removed from drafts only.`,
      "Put further requests into another batch. To drop a waiting request, cancel its job: POST /v2/{endpoint}/cancel/{request}."
    )),
  Cancelled: (id: string, status: string) =>
    new Conflict(problemMembers(`Batch "${id}" is ${status} and cannot be started.`, "Create another batch with its requests.")),
  Ended: (id: string, status: string) =>
    new Conflict(problemMembers(
      `Batch "${id}" is ${status}, so its webhook can no longer be changed.`,
      "Poll the batch instead: GET /v2/{endpoint}/batch/{id}. Its name can still be changed."
    ))
} as const

const batchMissing = ({ id }: BatchMissing): BatchNotFound =>
  new BatchNotFound(problemMembers(
    `There is no batch "${excerpt(id)}" on this endpoint.`,
    "Check the id and the endpoint. Ended batches are deleted after the endpoint's retention (24 hours by default)."
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
        "List the ids of its requests: GET /v2/{endpoint}/batch/{id}/requests."
      ))
    case "WrongStatus":
      return wrongStatus[reason.rejection](excerpt(reason.id), reason.status)
    case "BatchTooLarge":
      return tooManyRequests(reason.limit)
    case "TooManyBatches":
      return new Conflict(problemMembers(
        `This key has ${reason.open} batches on this endpoint that have not ended, drafts included; at most ${reason.limit} are allowed.`,
        "Wait until one has ended, or cancel one: POST /v2/{endpoint}/batch/{id}/cancel. GET /v2/{endpoint}/batch lists them. " +
          "The platform's operator can also raise the limit (STINT_BATCHES, and limits.openBatches of the endpoint)."
      ))
    case "QueueFull":
      return new Conflict(problemMembers(
        `With batch "${
          excerpt(reason.id)
        }", more than ${reason.limit} jobs would be waiting on this endpoint; ${reason.queued} are waiting already.`,
        "The batch stays a draft. Finalize it when fewer jobs are waiting (GET /v2/{endpoint}/health), or split it. " +
          "The platform's operator can also raise the limit (STINT_BATCH_QUEUED, and limits.waitingJobs of the endpoint)."
      ))
  }
}

/** 409 for a batch that exceeds the maximum number of requests. */
export const tooManyRequests = (limit: number): Conflict =>
  new Conflict(problemMembers(
    `The batch would exceed the limit of ${limit} requests. Nothing of this call was stored.`,
    "Put the remaining requests into another batch. The platform's operator can also raise the limit (STINT_BATCH_REQUESTS, and limits.batchRequests of the endpoint)."
  ))

/** For calls that create or start a batch. */
export const mapBatchStartErrors = <A, R>(
  effect: Effect.Effect<A, StoreError | EndpointGone | ChangeError | TooManyBatches | QueueFull | QueueBudgetReached, R>
): Effect.Effect<A, BatchNotFound | Conflict | EndpointNotFound | BudgetReached | Unavailable, R> =>
  Effect.catch(
    effect,
    (error): Effect.Effect<never, BatchNotFound | Conflict | EndpointNotFound | BudgetReached | Unavailable> =>
      error._tag === "StoreError"
        ? mapStoreErrors(Effect.fail(error))
        : error._tag === "BudgetReached"
        ? Effect.fail(budgetReached(error))
        : Effect.fail(error._tag === "EndpointGone" ? endpointGone(error) : problemOf(error))
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

/** For calls that read a batch, and for changes that cannot conflict. */
export const mapBatchLookupErrors = <A, R>(
  effect: Effect.Effect<A, StoreError | BatchMissing, R>
): Effect.Effect<A, BatchNotFound | Unavailable, R> =>
  Effect.catch(
    effect,
    (error): Effect.Effect<never, BatchNotFound | Unavailable> =>
      error._tag === "StoreError" ? mapStoreErrors(Effect.fail(error)) : Effect.fail(batchMissing(error))
  )

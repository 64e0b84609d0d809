/**
 * Maps errors from the stores and the queue to the API's error responses.
 *
 * Each mapper accepts exactly the errors of its operations, so that a new error does not compile until it has a response here.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import {
  BudgetReached,
  Conflict,
  EndpointNotFound,
  InsufficientStorage,
  InvalidRequest,
  JobNotFound,
  problemMembers,
  TooManyRequests,
  Unavailable
} from "@stint/contract/Problem"
import type {
  BudgetReached as QueueBudgetReached,
  ChunkGap,
  EndpointGone,
  IdempotencyConflict,
  InvalidCursor,
  JobMissing,
  LeaseLost,
  NotRetryable,
  QuotaExceeded
} from "@stint/queue/JobErrors"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { PayloadUnavailable, StoreBroken, StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import { memoryFull, setRetryAfter } from "./BodyAdmission.ts"
import { excerpt } from "./ProblemJson.ts"

/** Seconds until a caller should retry while the store cannot be reached. Most outages are database restarts. */
const AWAY_RETRY_AFTER = 5

const storeUnavailable = ({ cause, logged = false, operation }: StoreUnavailable) =>
  Effect.andThen(
    Effect.andThen(
      logged ? Effect.void : Effect.logError(`The job store failed in ${operation}. Nothing of this request was stored.`, cause),
      setRetryAfter(AWAY_RETRY_AFTER)
    ),
    new Unavailable(problemMembers(
      "The platform cannot reach its job store; nothing of this request was stored.",
      "Send the request again in a few seconds. If the error persists, check the platform's log: it names the cause."
    ))
  )

/** Seconds until a caller should retry after a shortage of space, which only ends when jobs are removed or the operator acts. */
const FULL_RETRY_AFTER = 30

/** 503 and not 507, so that clients and proxies retry (docs/decisions/0022-database-outages.md). The store logs the shortage once. */
const storeFull = Effect.andThen(
  setRetryAfter(FULL_RETRY_AFTER),
  new Unavailable(problemMembers(
    "The platform's disk has too little free space to store this request; nothing of it was stored.",
    `Send the request again in ${FULL_RETRY_AFTER} s. Stored jobs continue, and can be cancelled and purged. The operator must free space on the disk: the platform's log says how much.`
  ))
)

const BROKEN_TEXTS: Readonly<Record<StoreBroken["problem"], string>> = {
  missing: "The platform's database file is missing: it was deleted or moved while the platform was running.",
  replaced: "The platform's database file was replaced or truncated while the platform was running.",
  damaged: "The platform's database file is damaged."
}

/** 503: no write would be durable. The store logs the problem once, with the file and the remedy. */
const storeBroken = ({ problem }: StoreBroken) =>
  new Unavailable(problemMembers(
    `${BROKEN_TEXTS[problem]} Nothing of this request was stored.`,
    "The operator must restore the file. The platform's log names the file and the steps."
  ))

const payloadUnavailable = ({ operation, problem }: PayloadUnavailable) =>
  Effect.andThen(
    Effect.logError(
      `The object store failed in ${operation}: ${problem}. ${
        operation === "put" ? "Nothing of this request was stored." : "The payload cannot be returned."
      }`
    ),
    Effect.andThen(
      setRetryAfter(5),
      new Unavailable(problemMembers(
        operation === "put"
          ? "The platform cannot reach its object store for large payloads; nothing of this request was stored."
          : "The platform cannot reach its object store, which holds a large payload of this job. The job itself is unchanged.",
        "Send the request again in a few seconds. If the error persists, check the platform's log."
      ))
    )
  )

/** 503 for a failed store. */
export const unavailable = ({ reason }: StoreError): Effect.Effect<never, Unavailable> => {
  switch (reason._tag) {
    case "StoreUnavailable":
      return storeUnavailable(reason)
    case "StoreFull":
      return storeFull
    case "StoreBroken":
      return storeBroken(reason)
    case "PayloadUnavailable":
      return payloadUnavailable(reason)
    case "PayloadMemoryFull":
      return memoryFull(reason.bytes)
  }
}

/** 404 for a job id. */
export const jobNotFound = (id: string): JobNotFound =>
  new JobNotFound(problemMembers(
    `There is no job "${excerpt(id)}" on this endpoint.`,
    "Check the id and the endpoint. Finished jobs are stored for the endpoint's retention (24 hours by default), then deleted."
  ))

const leaseLost = ({ holder, id, worker }: LeaseLost) =>
  new Conflict(problemMembers(
    `Worker "${excerpt(worker)}" does not hold job "${id}"${
      holder === null ? "" : `; worker "${holder}" does`
    }. The request was not stored.`,
    "The worker sent no heartbeat within its lease, or the job has ended. Drop the job and take another."
  ))

const notRetryable = ({ id, status }: NotRetryable) =>
  new Conflict(problemMembers(
    `Job "${id}" is ${status}; only FAILED and TIMED_OUT jobs can be retried.`,
    "Submit a new job with the same input."
  ))

const idempotencyConflict = ({ id, key }: IdempotencyConflict) =>
  new Conflict(problemMembers(
    `The idempotency key "${excerpt(key)}" belongs to a different request, which created job "${id}".`,
    "Send the original request to get that job, or use another key for a different request."
  ))

const chunkGap = ({ chunk, expected, id }: ChunkGap) =>
  new Conflict(problemMembers(
    `Chunk ${chunk} of job "${id}" arrived before chunk ${expected}. It was not stored.`,
    "Send the missing chunk first."
  ))

/** 404 for an endpoint that was deleted after the request found it. */
export const endpointGone = ({ endpoint }: EndpointGone) =>
  new EndpointNotFound(problemMembers(
    `The endpoint "${excerpt(endpoint)}" was deleted while the request was in flight. Nothing of the request was stored.`,
    "Create the endpoint again, or send the request to another endpoint."
  ))

/** Seconds until a caller should retry a submission to a full queue. An estimate: the platform does not know how long jobs run. */
const QUEUE_FULL_RETRY_AFTER = 10

const tooManyWaiting = ({ endpoint, key, limit, scope }: QuotaExceeded) => {
  const jobs = `${limit} ${limit === 1 ? "job" : "jobs"}`
  const be = limit === 1 ? "is" : "are"
  const name = excerpt(endpoint)
  return Effect.andThen(
    setRetryAfter(QUEUE_FULL_RETRY_AFTER),
    new TooManyRequests({
      ...(scope === "endpoint"
        ? problemMembers(
          `${jobs} ${be} waiting on the endpoint "${name}", the most that it allows. The job was not stored.`,
          `Send the request again in ${QUEUE_FULL_RETRY_AFTER} s, when fewer jobs are waiting (GET /v2/${name}/health), or cancel waiting jobs. ` +
            "The platform's operator can raise limits.waitingJobs or workers.max of the endpoint."
        )
        : problemMembers(
          `${jobs} of this key ${be} waiting, on all endpoints together, the most that the key may have. The job was not stored.`,
          `Send the request again in ${QUEUE_FULL_RETRY_AFTER} s, when fewer of its jobs are waiting, or cancel waiting jobs. ` +
            `The platform's operator can raise the quota: stint keys update ${key} --max-waiting-jobs N.`
        )),
      retryAfter: QUEUE_FULL_RETRY_AFTER
    })
  )
}

/** `512 bytes`, `2.5 MB`, `5 GB`: rounded for reading. */
const decimalSize = (bytes: number): string => {
  const units = [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as const
  const [size, unit] = units.find(([size]) => bytes >= size) ?? [1, bytes === 1 ? "byte" : "bytes"]
  return `${Math.round(bytes / size * 10) / 10} ${unit}`
}

/** 507: unlike a full queue, a full byte quota does not clear within seconds, so the caller must not wait and retry. */
const tooManyBytes = ({ endpoint, key, limit, scope, size, used }: QuotaExceeded) => {
  const name = excerpt(endpoint)
  const [whose, setting] = scope === "endpoint"
    ? [`The jobs of the endpoint "${name}" store`, `stint endpoints update ${name} --limit-stored-bytes SIZE`]
    : ["The jobs of this key, on all endpoints together, store", `stint keys update ${key} --max-stored-bytes SIZE`]
  return Effect.fail(
    new InsufficientStorage(problemMembers(
      `${whose} ${decimalSize(used)} of at most ${decimalSize(limit)}, and this job needs ${
        decimalSize(size)
      }. The job was not stored.`,
      "Ended jobs free their space when the retention of their endpoint ends, 24 hours by default. Until then, a repeated request fails again. " +
        `The platform's operator can raise the quota: ${setting}.`
    ))
  )
}

/** For operations that can fail only when a store fails. */
export const mapStoreErrors = <A, R>(effect: Effect.Effect<A, StoreError, R>): Effect.Effect<A, Unavailable, R> =>
  Effect.catch(effect, unavailable)

/** For operations that read or cancel one job. */
export const mapLookupErrors = <A, R>(
  effect: Effect.Effect<A, StoreError | JobMissing, R>
): Effect.Effect<A, Unavailable | JobNotFound, R> =>
  Effect.catchTags(effect, {
    StoreError: unavailable,
    JobMissing: ({ id }) => Effect.fail(jobNotFound(id))
  })

/** For operations that change one job: retries and writes by workers. */
export const mapJobErrors = <A, R>(
  effect: Effect.Effect<A, StoreError | JobMissing | LeaseLost | NotRetryable | ChunkGap, R>
): Effect.Effect<A, Unavailable | JobNotFound | Conflict, R> =>
  Effect.catchTags(effect, {
    StoreError: unavailable,
    JobMissing: ({ id }) => Effect.fail(jobNotFound(id)),
    LeaseLost: (error) => Effect.fail(leaseLost(error)),
    NotRetryable: (error) => Effect.fail(notRetryable(error)),
    ChunkGap: (error) => Effect.fail(chunkGap(error))
  })

/** 402 for a submission whose endpoint or key has used its budget. */
export const budgetReached = ({ currency, id, limit, period, renewsAt, scope }: QueueBudgetReached): BudgetReached =>
  new BudgetReached({
    ...problemMembers(
      `The ${period} budget of ${limit} ${currency} of ${
        scope === "key" ? "this key" : `the endpoint "${excerpt(id)}"`
      } is used up. ` +
        `It renews at ${new Date(renewsAt).toISOString()}. Nothing of this request was stored.`,
      "Send the request again after that time. Jobs that were accepted before continue. To see what it was spent on: stint usage. " +
        "The platform's operator can raise the budget in the price file (STINT_PRICES)."
    ),
    renewsAt
  })

type SubmitError = StoreError | IdempotencyConflict | EndpointGone | QuotaExceeded | QueueBudgetReached

type SubmitProblem = Unavailable | EndpointNotFound | Conflict | BudgetReached | TooManyRequests | InsufficientStorage

const submitProblem = (error: SubmitError): Effect.Effect<never, SubmitProblem> => {
  switch (error._tag) {
    case "StoreError":
      return unavailable(error)
    case "IdempotencyConflict":
      return Effect.fail(idempotencyConflict(error))
    case "EndpointGone":
      return Effect.fail(endpointGone(error))
    case "BudgetReached":
      return Effect.fail(budgetReached(error))
    case "QuotaExceeded":
      return error.resource === "waitingJobs" ? tooManyWaiting(error) : tooManyBytes(error)
  }
}

/** For submissions. */
export const mapSubmitErrors = <A, R>(effect: Effect.Effect<A, SubmitError, R>): Effect.Effect<A, SubmitProblem, R> =>
  Effect.catch(effect, submitProblem)

/** 400 for a list cursor that was not issued by the platform. */
const invalidListCursor = ({ value }: Pick<InvalidCursor, "value">): InvalidRequest =>
  new InvalidRequest({
    ...problemMembers(
      `"${excerpt(value)}" is not a list cursor of this platform.`,
      "Pass the `cursor` of the previous page unchanged, or omit it to start from the first page."
    ),
    errors: [{ path: ["cursor"], message: "expected a cursor of this platform" }]
  })

/** 400 for a Last-Event-ID that was not issued by the platform. */
export const invalidEventId = (value: string): InvalidRequest =>
  new InvalidRequest({
    ...problemMembers(
      `"${excerpt(value)}" is not an event id of this platform.`,
      "Pass the id of the last event unchanged, or omit it to receive all events."
    ),
    errors: [{ path: ["Last-Event-ID"], message: "expected an event id of this platform" }]
  })

/** For lists. */
export const mapListErrors = <A, R>(
  effect: Effect.Effect<A, StoreError | InvalidCursor, R>
): Effect.Effect<A, Unavailable | InvalidRequest, R> =>
  Effect.catchTags(effect, {
    StoreError: unavailable,
    InvalidCursor: (error) => Effect.fail(invalidListCursor(error))
  })

/**
 * Looks up the endpoint that a request names. `lists`: whether the error for an unknown endpoint names the others. Set it only for callers
 * whose key is valid for all endpoints.
 */
export const endpointFinder = Effect.map(EndpointStore, (endpoints) => {
  const missing = Effect.fnUntraced(function*(id: string, lists: boolean) {
    const known = lists ? (yield* mapStoreErrors(endpoints.list)).map((one) => one.id) : undefined
    return yield* new EndpointNotFound(problemMembers(
      `There is no endpoint "${excerpt(id)}" here.`,
      known === undefined
        ? "Check the URL, or ask the platform's operator: `stint endpoints list`."
        : known.length === 0
        ? "Create it: stint endpoints create NAME --handler FILE."
        : `Endpoints here: ${known.slice(0, 20).join(", ")}. Create another with: stint endpoints create NAME --handler FILE.`
    ))
  })
  return (id: string, lists = false): Effect.Effect<Endpoint, EndpointNotFound | Unavailable> =>
    Effect.flatMap(
      mapStoreErrors(endpoints.get(id)),
      (endpoint) => endpoint === undefined ? missing(id, lists) : Effect.succeed(endpoint)
    )
})

/**
 * What every request of a worker contains.
 */
import { MAX_WORKER_ID, WorkerId } from "@stint/contract/Ids"
import { InvalidRequest, problemMembers } from "@stint/contract/Problem"
import * as Effect from "effect/Effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Schema from "effect/Schema"
import type { WorkerIdentity } from "../auth/AccessKeys.ts"
import { NOSNIFF } from "../http/JsonResponse.ts"
import { Limits } from "../http/Limits.ts"
import { endpointFinder } from "../http/QueueProblems.ts"
import type { WorkerUrl } from "./WorkerUrl.ts"

/** A worker's request, and what its key proves. */
export interface WorkerCall {
  readonly params: { readonly endpoint: string; readonly worker: string }
  readonly request: HttpServerRequest.HttpServerRequest
  readonly identity: WorkerIdentity
}

/** 200 without a body. Sets content-length, because otherwise Node sends an empty body with chunked encoding. */
export const accepted = HttpServerResponse.empty({ status: 200, headers: { "content-length": "0", ...NOSNIFF } })

/** Most worker ids. The schema allows more characters, but its check costs more than the rest of the URL. */
const PLAIN_WORKER_ID = /^[\w.-]{1,256}$/

const isWorkerIdSchema = Schema.is(WorkerId)

const isWorkerId = (text: string): boolean => PLAIN_WORKER_ID.test(text) || isWorkerIdSchema(text)

/** The worker's id in a URL. */
export const workerOf = (address: WorkerUrl): Effect.Effect<string, InvalidRequest> =>
  isWorkerId(address.last)
    ? Effect.succeed(address.last)
    : new InvalidRequest(problemMembers(
      address.last === ""
        ? "The URL contains no worker id."
        : address.last.length > MAX_WORKER_ID
        ? `The worker id has ${address.last.length} characters; at most ${MAX_WORKER_ID} are allowed.`
        : "The worker id contains control characters.",
      "A worker's URL ends with its id, such as .../job-take/my-worker. SDKs read the id from RUNPOD_POD_ID or PLATFORM_POD_ID."
    ))

/**
 * Delays an error response, because existing SDKs retry a failed take immediately and indefinitely
 * (docs/spec/worker-protocol.md#taking-a-job).
 */
export const refusalDelay = Effect.map(
  Limits,
  ({ refusalWaitMs }) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.tapError(effect, () => Effect.interruptible(Effect.sleep(refusalWaitMs)))
)

/** Finds the endpoint of a worker's request. The error response is delayed. */
export const workerEndpointFinder = Effect.gen(function*() {
  const find = yield* endpointFinder
  const delayRefusal = yield* refusalDelay
  return (id: string) => delayRefusal(find(id))
})

/**
 * Binds each operation of {@link WorkerOperations} to the worker API of the `HttpApi`.
 */
import { Api } from "@stint/contract/Api"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentWorkerIdentity } from "../auth/AuthMiddleware.ts"
import type { WorkerCall } from "./WorkerCall.ts"
import { WorkerOperations } from "./WorkerOperations.ts"

/** Adds what the caller's key proves to the request. */
const withIdentity = <P extends WorkerCall["params"], A, E, R>(
  operation: (call: Omit<WorkerCall, "params"> & { readonly params: P }) => Effect.Effect<A, E, R>
) =>
({ params, request }: Pick<WorkerCall, "request"> & { readonly params: P }) =>
  Effect.flatMap(CurrentWorkerIdentity, (identity) => operation({ params, request, identity }))

/** The handlers of the worker API. */
export const layer = HttpApiBuilder.group(
  Api,
  "workers",
  Effect.fnUntraced(function*(handlers) {
    const operations = yield* WorkerOperations
    return handlers
      .handleRaw("jobTake", withIdentity(operations.take), { uninterruptible: true })
      .handleRaw("jobTakeBatch", withIdentity(operations.takeBatch), { uninterruptible: true })
      .handleRaw("jobDone", withIdentity(operations.done))
      .handleRaw("jobDoneBatch", withIdentity(operations.doneBatch))
      .handleRaw("jobStream", withIdentity(operations.chunk))
      .handleRaw("handlerSchema", withIdentity(operations.handlerSchema))
      .handleRaw("runJournal", withIdentity(operations.journal))
      .handleRaw("jobStop", withIdentity(operations.stop), { uninterruptible: true })
      .handleRaw("ping", withIdentity(operations.ping))
      .handleRaw("pingByPost", withIdentity(operations.pingByPost))
  })
)

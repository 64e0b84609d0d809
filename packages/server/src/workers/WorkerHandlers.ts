/**
 * Binds each operation of {@link WorkerOperations} to the worker API of the `HttpApi`.
 */
import { Api } from "@stint/contract/Api"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import { WorkerOperations } from "./WorkerOperations.ts"

/** The handlers of the worker API. */
export const layer = HttpApiBuilder.group(
  Api,
  "workers",
  Effect.fnUntraced(function*(handlers) {
    const operations = yield* WorkerOperations
    return handlers
      .handleRaw("jobTake", operations.take, { uninterruptible: true })
      .handleRaw("jobTakeBatch", operations.takeBatch, { uninterruptible: true })
      .handleRaw("jobDone", operations.done)
      .handleRaw("jobStream", operations.chunk)
      .handleRaw("jobStop", operations.stop, { uninterruptible: true })
      .handleRaw("ping", operations.ping)
      .handleRaw("pingByPost", operations.pingByPost)
  })
)

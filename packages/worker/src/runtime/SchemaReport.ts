/**
 * Reports what the handler takes and returns to the platform, once (docs/spec/jobs-api.md#the-schema-of-a-handler).
 *
 * ```
 *   first take --1 s--> load the conversion to JSON Schema --> report --no response--> again, up to three times
 * ```
 *
 * The report only informs callers, so that it delays no job, and no failure ends the worker.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type { Runnable } from "../handlers/Runnable.ts"
import { JobSource } from "../transport/JobSource.ts"
import { Ready } from "./Ready.ts"

/** Between the first take and the report, so that it does not lengthen a cold start. */
const DELAY = "1 second"

const RETRY_DELAY = Schedule.spaced("10 seconds")
const MAX_RETRIES = 3

/** Reports the schema of a handler while the layer's scope is open. Does nothing for a handler without Schemas, and in local test mode. */
export const layer = <R>(handler: Runnable<R>): Layer.Layer<never, never, JobSource | Ready> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { handlerSchema } = yield* JobSource
    const ready = yield* Ready
    const { schemaText } = handler
    if (handlerSchema === undefined || schemaText === undefined) return
    const report = Effect.gen(function*() {
      const text = yield* Effect.promise(schemaText)
      if (text === undefined) return yield* Effect.logDebug("The handler's schema is not reported, because it is too large.")
      yield* Effect.retry(handlerSchema(text), {
        schedule: RETRY_DELAY,
        times: MAX_RETRIES,
        while: ({ reason }) => reason._tag === "Unreachable"
      })
    })
    yield* Deferred.await(ready).pipe(
      Effect.andThen(Effect.sleep(DELAY)),
      Effect.andThen(report),
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logDebug("The handler's schema could not be reported.", cause)
      ),
      Effect.forkScoped
    )
  }))

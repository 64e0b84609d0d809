/**
 * Schedules are not implemented in PostgreSQL yet: there are none, and creating one is refused.
 */
import { ScheduleStore } from "@stint/store/ScheduleStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Unsupported from "./Unsupported.ts"

/** A store without schedules. */
export const layer: Layer.Layer<ScheduleStore> = Layer.succeed(ScheduleStore, {
  get: () => Effect.succeed(undefined),
  list: () => Effect.succeed([]),
  put: () => Effect.fail(Unsupported.schedules),
  remove: () => Effect.succeed(false),
  due: () => Effect.succeed([])
})

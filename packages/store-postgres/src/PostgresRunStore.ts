/**
 * Runs of pipelines are not implemented in PostgreSQL yet: there are none, and every operation that would create one is refused.
 */
import { RunStore } from "@stint/store/RunStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Unsupported from "./Unsupported.ts"

const refused = Effect.fail(Unsupported.runs)

/** A store without runs. */
export const layer: Layer.Layer<RunStore> = Layer.succeed(RunStore, {
  journal: () => refused,
  define: () => refused,
  definition: () => Effect.succeed(undefined),
  get: () => Effect.succeed(undefined),
  entries: () => Effect.succeed([]),
  open: () => Effect.succeed([]),
  send: () => refused,
  retry: () => Effect.succeed({ _tag: "Missing" })
})

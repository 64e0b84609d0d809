/**
 * The journal of a worker: its platform's journal or, in local test mode, a journal in memory.
 */
import { JobSource } from "@stint/worker/JobSource"
import type { Shutdown } from "@stint/worker/Shutdown"
import { WorkerConfig } from "@stint/worker/WorkerConfig"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Journal } from "./Journal.ts"
import * as JournalHttp from "./JournalHttp.ts"
import * as JournalMemory from "./JournalMemory.ts"

/**
 * In memory, a run waits in the process, ends with the process, and cannot run jobs of endpoints. On a platform without a journal, the layer
 * dies, because a run would restart after each crash.
 */
export const layer: Layer.Layer<Journal, never, JobSource | Shutdown | WorkerConfig> = Layer.effect(
  Journal,
  Effect.gen(function*() {
    const { runJournal } = yield* JobSource
    const { platform } = yield* WorkerConfig
    if (runJournal !== undefined) return yield* JournalHttp.make(runJournal)
    if (platform !== undefined) {
      return yield* Effect.die(
        new Error(
          "Pipelines need a platform with a journal, and this worker's platform has none. Run it with `stint dev` or `stint serve`."
        )
      )
    }
    const { journal } = yield* JournalMemory.make()
    return { ...journal, chunk: undefined, finishes: false }
  })
)

/**
 * Indexes the words of jobs in the background.
 *
 * ```
 *   step --took t--> sleep IDLE_FACTOR * t, or BUSY_FACTOR * t while the process is busy --> step ...
 *     `--nothing left--> wait for a change --> sleep `delay` --> step
 * ```
 *
 * The pauses limit the index to a share of the process's time: a quarter of an idle process, and a thirtieth of a busy one. `delay` lets a short job end
 * before it is indexed, so that it is indexed once. An idle platform does nothing.
 */
import * as OutageLog from "@stint/store/OutageLog"
import type { StoreError } from "@stint/store/StoreError"
import { TextIndex } from "@stint/store/TextIndex"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { performance } from "node:perf_hooks"

/** Settings of the layer. */
export interface Options {
  /** The time between a change and its indexing. Default: 1 second. A shorter one indexes more jobs twice: waiting, and ended. */
  readonly delay?: Duration.Input
}

/** The pause after a step, in multiples of its duration. */
const IDLE_FACTOR = 3
const BUSY_FACTOR = 30

/** The share of the process's time above which it is busy. */
const BUSY = 0.5

const RETRY = Duration.seconds(5)

/** Runs while the layer's scope is open. */
export const layer = ({ delay = Duration.seconds(1) }: Options = {}): Layer.Layer<never, never, TextIndex> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const index = yield* TextIndex
    const outage = OutageLog.make({
      onFailure: (problem) =>
        Effect.logError(
          `The index of words cannot be updated: ${problem}. Searches compare the changed jobs instead; retrying every 5 s.`
        ),
      onRecovery: Effect.logInfo("The index of words is updated again.")
    })
    let since = performance.eventLoopUtilization()
    const once: Effect.Effect<void, StoreError> = Effect.suspend(() => {
      const begun = performance.now()
      const isBusy = performance.eventLoopUtilization(since).utilization > BUSY
      since = performance.eventLoopUtilization()
      return Effect.flatMap(index.step, (more) =>
        more
          ? Effect.sleep((isBusy ? BUSY_FACTOR : IDLE_FACTOR) * (performance.now() - begun))
          : Effect.andThen(index.wait, Effect.sleep(delay)))
    })
    yield* outage.watch(once).pipe(
      Effect.flatMap((succeeded) => succeeded ? Effect.void : Effect.sleep(RETRY)),
      Effect.forever,
      Effect.forkScoped
    )
  }))

/** Removes the index, for a platform that does not use it. Its tables would not follow the jobs. */
export const layerOff: Layer.Layer<never, never, TextIndex> = Layer.effectDiscard(
  Effect.gen(function*() {
    const index = yield* TextIndex
    while (yield* index.clear) yield* Effect.yieldNow
  }).pipe(
    Effect.catch((error) => Effect.logWarning(`The index of words stays in the database for now: ${error.message}`))
  )
)

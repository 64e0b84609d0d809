/**
 * Measures how late this process's timers run, while its readings are in use.
 *
 * ```
 *   first reading --> measuring --no reading for {@link KEEP}--> stopped; the next reading starts it again
 * ```
 *
 * Node measures with a timer that wakes the process every {@link RESOLUTION}. On an idle platform, a hundred wake-ups a second cost almost as much
 * as everything else combined (docs/decisions/0061-an-idle-platform.md).
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberHandle from "effect/FiberHandle"
import type * as Scope from "effect/Scope"
import { monitorEventLoopDelay } from "node:perf_hooks"

/** The time between two measurements, which is also their error. Milliseconds. */
const RESOLUTION = 20

/** How long to continue measuring after a reading. Longer than the scrape intervals of Prometheus and of other collectors. */
const KEEP: Duration.Input = "10 minutes"

/** The part of Node's histogram that is used. Its values are in nanoseconds. */
export type Histogram = Pick<ReturnType<typeof monitorEventLoopDelay>, "count" | "disable" | "enable" | "percentile" | "reset">

/** Seconds by percentile, since the previous reading. Empty when nothing was measured. */
export type Delays = ReadonlyMap<number, number>

/** Measures until the scope closes. */
export const make = Effect.fnUntraced(function*(
  percentiles: ReadonlyArray<number>,
  histogram: Histogram = monitorEventLoopDelay({ resolution: RESOLUTION })
): Effect.fn.Return<{ readonly read: Effect.Effect<Delays> }, never, Scope.Scope> {
  const stopping = yield* FiberHandle.make<void>()
  const stop = Effect.sync(() => void histogram.disable())
  yield* Effect.addFinalizer(() => stop)

  const read = Effect.gen(function*() {
    const delays = new Map<number, number>()
    if (histogram.count > 0) {
      for (const percentile of percentiles) {
        delays.set(percentile, Math.max(0, histogram.percentile(percentile) / 1e9 - RESOLUTION / 1e3))
      }
      // Not without a value: Node discards the time of the previous timer too, so that readings 20 ms apart would never find a value.
      histogram.reset()
    }
    histogram.enable()
    yield* FiberHandle.run(stopping, Effect.delay(stop, KEEP))
    return delays
  })
  return { read }
})

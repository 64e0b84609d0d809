/**
 * How long to wait before trying again.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

/** Between what and what the waits grow. */
export interface Limits {
  /** About the first wait. Milliseconds. */
  readonly initial: number
  /** The longest wait. Milliseconds. */
  readonly max: number
}

/**
 * Milliseconds to wait after so many failures in a row: doubling from `first` to `most`, and anything between half of that and
 * all of it, so that workers that lost the same platform do not come back in the same instant.
 */
export const delayAfter = (failures: number, { initial, max }: Limits): Effect.Effect<number> => {
  const delay = Math.min(max, initial * 2 ** Math.min(Math.max(failures - 1, 0), 30))
  return Effect.map(Random.next, (random) => Math.round(delay * (0.5 + random / 2)))
}

/**
 * Reproducible randomness: tests print their seed, and a seed determines the run.
 */

/** Generates numbers in [0, 1) that depend only on the seed (mulberry32). */
export const seededRandom = (seed: number): () => number => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** The seed of this run: `STINT_PROPERTY_SEED` if it is set, to repeat a failed run; otherwise a new seed. */
export const runSeed = (): number => Number(process.env["STINT_PROPERTY_SEED"] ?? Date.now() % 2 ** 31)

/** `STINT_CHAOS_MINUTES`: how many minutes the tests for rare faults may run. Undefined in an ordinary run, which takes seconds. */
export const chaosMinutes = (): number | undefined => {
  const minutes = Number(process.env["STINT_CHAOS_MINUTES"])
  return minutes > 0 ? minutes : undefined
}

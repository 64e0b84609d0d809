/**
 * Chance that can be had again: tests print their seed, and a seed is a course of events.
 */

/** Numbers from 0 up to 1 that depend on the seed alone (mulberry32). */
export const seededRandom = (seed: number): () => number => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** The seed of this run: `STINT_PROPERTY_SEED`, to have a failed course again, or another one each time. */
export const runSeed = (): number => Number(process.env["STINT_PROPERTY_SEED"] ?? Date.now() % 2 ** 31)

/** `STINT_CHAOS_MINUTES`: how long the tests that look for rare faults may look. Undefined in an ordinary run, which takes seconds. */
export const chaosMinutes = (): number | undefined => {
  const minutes = Number(process.env["STINT_CHAOS_MINUTES"])
  return minutes > 0 ? minutes : undefined
}

/**
 * "Did you mean": the nearest of a few known words, for errors about a wrong one.
 */

/** How many letters must be inserted, removed, changed, or swapped with their neighbour, to get from one word to the other. */
const distance = (from: string, to: string): number => {
  let beforePrevious: ReadonlyArray<number> = []
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const changed = (previous[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1)
      const isSwap = row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      const swapped = isSwap ? (beforePrevious[column - 2] ?? 0) + 1 : changed
      current.push(Math.min(changed, swapped, (current[column - 1] ?? 0) + 1, (previous[column] ?? 0) + 1))
    }
    beforePrevious = previous
    previous = current
  }
  return previous[to.length] ?? 0
}

const bare = (word: string) => word.toLowerCase().replaceAll(/[^a-z0-9]/g, "")

/** The fewest letters that a beginning must have to count as one: `warn` of `warning`. */
const BEGINNING = 3

const isBeginning = (word: string, other: string) => word.length >= BEGINNING && other.startsWith(word)

/**
 * The known word that was probably meant, or undefined when none is near. Case, `_` and `-` do not count, so
 * `returnAggregateStream` finds `return_aggregate_stream`; beyond that one letter in three may differ, or one word be the
 * beginning of the other. Two neighbours that were swapped differ in one. Words that share nothing are not near, however short.
 */
export const nearest = (word: string, known: ReadonlyArray<string>): string | undefined => {
  let best: string | undefined
  let least = Math.max(1, Math.floor(bare(word).length / 3)) + 1
  for (const candidate of known) {
    const [given, meant] = [bare(word), bare(candidate)]
    const far = isBeginning(given, meant) || isBeginning(meant, given) ? 1 : distance(given, meant)
    if (far < least && far < Math.max(given.length, meant.length)) {
      least = far
      best = candidate
    }
  }
  return best
}

/** ` Did you mean "x"?` with its leading space, or nothing. */
export const didYouMean = (word: string, known: ReadonlyArray<string>): string => {
  const found = nearest(word, known)
  return found === undefined ? "" : ` Did you mean "${found}"?`
}

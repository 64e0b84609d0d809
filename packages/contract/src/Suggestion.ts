/**
 * "Did you mean" suggestions: finds the closest known word for an error about an unknown word.
 */

/** The edit distance between two words; swapping two neighbouring letters counts as one edit. */
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

/** The minimum length of a prefix that counts as a match, in characters: `warn` matches `warning`. */
const MIN_PREFIX = 3

const isPrefix = (word: string, other: string) => word.length >= MIN_PREFIX && other.startsWith(word)

/**
 * The known word that is closest to `word`, or undefined if none is close. Ignores case, `_` and `-`, so `returnAggregateStream` matches
 * `return_aggregate_stream`. Otherwise, one letter in three may differ, or one word may be a prefix of the other. Words without a common letter never
 * match.
 */
export const nearest = (word: string, known: ReadonlyArray<string>): string | undefined => {
  let best: string | undefined
  let least = Math.max(1, Math.floor(bare(word).length / 3)) + 1
  for (const candidate of known) {
    const [given, meant] = [bare(word), bare(candidate)]
    const far = isPrefix(given, meant) || isPrefix(meant, given) ? 1 : distance(given, meant)
    if (far < least && far < Math.max(given.length, meant.length)) {
      least = far
      best = candidate
    }
  }
  return best
}

/** ` Did you mean "x"?` with a leading space, or an empty string. */
export const didYouMean = (word: string, known: ReadonlyArray<string>): string => {
  const found = nearest(word, known)
  return found === undefined ? "" : ` Did you mean "${found}"?`
}

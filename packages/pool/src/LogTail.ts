/**
 * Stores the last lines of a worker's output, for job errors and health reports.
 *
 * The number of lines, the length of each line and the total length are bounded, because the lines are stored in job records.
 */

export interface Options {
  /** Maximum number of lines. Default: 20. */
  readonly lines?: number
  /** Maximum total length. Characters; default: 2,000. */
  readonly characters?: number
  /** Maximum length of a line; longer lines are cut. Characters; default: 500. */
  readonly lineCharacters?: number
}

export interface LogTail {
  readonly add: (line: string) => void
  /** Oldest first. */
  readonly lines: () => ReadonlyArray<string>
}

export const make = (options: Options = {}): LogTail => {
  const maxLines = options.lines ?? 20
  const maxCharacters = options.characters ?? 2_000
  const maxLine = Math.min(options.lineCharacters ?? 500, maxCharacters)
  const kept: Array<string> = []
  let characters = 0
  return {
    add: (line) => {
      const cut = line.length > maxLine ? `${line.slice(0, maxLine - 3)}...` : line
      kept.push(cut)
      characters += cut.length
      while (kept.length > maxLines || characters > maxCharacters) characters -= kept.shift()?.length ?? 0
    },
    lines: () => [...kept]
  }
}

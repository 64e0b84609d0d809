/**
 * The last lines that a worker printed: what a tired human wants to read when it is gone.
 *
 * Bounded by lines, by the length of one and by all of them together, because they go into job records and health reports.
 */

export interface Options {
  /** How many lines are kept. Default: 20. */
  readonly lines?: number
  /** How long they may be together, in characters. Default: 2,000. */
  readonly characters?: number
  /** How long one line may be before its end is cut. Default: 500. */
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

/**
 * Removes entries from a source map. Node decodes all of a program's maps at its start when it runs with `--enable-source-maps`: for a small
 * handler, most of the entries belong to Stint and Effect, and decoding them took longer than the import itself.
 *
 * ```
 *   mappings  "AAAA,GAAG,MAAM;AACA"    one text per generated line, one segment per token; numbers are differences to the segment before
 * ```
 *
 * See the source map format, https://tc39.es/ecma426/.
 */
import * as Schema from "effect/Schema"

const SourceMap = Schema.fromJsonString(Schema.Struct({
  version: Schema.Literal(3),
  sources: Schema.Array(Schema.String),
  names: Schema.Array(Schema.String),
  mappings: Schema.String
}))
const decodeMap = Schema.decodeUnknownSync(SourceMap)
const encodeMap = Schema.encodeSync(SourceMap)

/** The sources of a map, relative to its folder. */
export const sourcesOf = (text: string): ReadonlyArray<string> => decodeMap(text).sources

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
const VALUES = new Map(DIGITS.split("").map((digit, value) => [digit, value]))

/**
 * The numbers of a segment: five bits per digit, lowest first; the sixth bit says that more digits follow, and the lowest bit of the number is
 * the sign.
 */
const numbersOf = (segment: string): ReadonlyArray<number> => {
  const numbers: Array<number> = []
  let value = 0
  let shift = 0
  for (const digit of segment) {
    const bits = VALUES.get(digit) ?? 0
    value += (bits & 31) << shift
    shift += 5
    if ((bits & 32) !== 0) continue
    numbers.push((value & 1) === 1 ? -(value >> 1) : value >> 1)
    value = 0
    shift = 0
  }
  return numbers
}

const segmentOf = (numbers: ReadonlyArray<number>): string => {
  let text = ""
  for (const number of numbers) {
    let rest = number < 0 ? (-number << 1) | 1 : number << 1
    do {
      text += DIGITS.charAt((rest & 31) | (rest > 31 ? 32 : 0))
      rest >>>= 5
    } while (rest > 0)
  }
  return text
}

/**
 * Keeps only the first entry of each line for the sources that `isCoarse` selects: their lines remain correct, columns point to the line's first
 * token, and names of functions are not restored. Other sources keep all entries.
 */
export const thin = (text: string, isCoarse: (source: string) => boolean): string => {
  const map = decodeMap(text)
  const coarse = map.sources.map(isCoarse)
  const names = new Map<number, number>()
  const read = { source: 0, line: 0, column: 0, name: 0 }
  const written = { source: 0, line: 0, column: 0, name: 0 }

  const thinLine = (segments: string): string => {
    let column = 0
    let writtenColumn = 0
    let last: { readonly source: number; readonly line: number } | undefined
    const kept: Array<string> = []
    for (const segment of segments === "" ? [] : segments.split(",")) {
      const [toColumn = 0, toSource, toLine = 0, toOriginal = 0, toName] = numbersOf(segment)
      column += toColumn
      const numbers = [column - writtenColumn]
      if (toSource === undefined) last = undefined
      else {
        read.source += toSource
        read.line += toLine
        read.column += toOriginal
        read.name += toName ?? 0
        const isOne = coarse[read.source] === true
        if (isOne && last?.source === read.source && last.line === read.line) continue
        last = { source: read.source, line: read.line }
        numbers.push(read.source - written.source, read.line - written.line, read.column - written.column)
        Object.assign(written, { ...read, name: written.name })
        if (toName !== undefined && !isOne) {
          const name = names.get(read.name) ?? names.size
          names.set(read.name, name)
          numbers.push(name - written.name)
          written.name = name
        }
      }
      writtenColumn = column
      kept.push(segmentOf(numbers))
    }
    return kept.join(",")
  }

  const mappings = map.mappings.split(";").map(thinLine).join(";")
  return encodeMap({ version: 3, sources: map.sources, names: [...names.keys()].map((name) => map.names[name] ?? ""), mappings })
}

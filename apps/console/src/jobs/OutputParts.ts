/**
 * Finds the parts of an output that people want to see as what they are: pictures, audio, video, tables and Markdown.
 *
 * | part | found by |
 * |---|---|
 * | picture, audio, video | a `data:` URL, or Base64 that begins with the signature of a known format, as handlers return `{ image: "iVBORw0..." }` |
 * | table | a list of objects whose members are texts, numbers or booleans |
 * | Markdown | a text with headings, lists, tables or code blocks |
 *
 * Addresses of other hosts are not loaded: a job's output must not make the browser of an operator call somebody.
 */
import * as Format from "../format/Format.ts"

/** A picture, a sound or a film. `source`: a `data:` URL. */
export interface MediaPart {
  readonly kind: "audio" | "image" | "video"
  /** Where it is in the output, such as `images[0]`; empty: it is the output. */
  readonly path: string
  readonly source: string
  /** `image/png` */
  readonly type: string
  readonly bytes: number
}

/** A list of objects. `columns`: the names of all members, in the order in which they first appear. */
export interface TablePart {
  readonly kind: "table"
  readonly path: string
  readonly columns: ReadonlyArray<string>
  readonly rows: ReadonlyArray<Readonly<Record<string, Cell>>>
}

/** A text in Markdown. */
export interface MarkdownPart {
  readonly kind: "markdown"
  readonly path: string
  readonly text: string
}

/** What a table shows. */
export type Cell = string | number | boolean | null

/** One part of an output. */
export type OutputPart = MediaPart | TablePart | MarkdownPart

/** The most parts of each kind, values that are looked at, and levels of nesting. */
const MOST = { media: 12, table: 3, markdown: 3, values: 10_000, depth: 8 }

/** The limits of a table. A wider or longer text is read better as JSON. */
const MOST_COLUMNS = 20
const LONGEST_CELL = 200

/** The shortest Base64 that can be a picture. */
const SHORTEST_BASE64 = 64

const DATA_URL = /^data:((image|audio|video)\/[\w.+-]+)((?:;[\w.+=-]+)*),/

/** The first bytes of a format as text, each byte a character, `?` for any byte. */
const SIGNATURES: ReadonlyArray<readonly [string, MediaPart["kind"], string]> = [
  ["\x89PNG\r\n\x1a\n", "image", "image/png"],
  ["\xff\xd8\xff", "image", "image/jpeg"],
  ["GIF8", "image", "image/gif"],
  ["RIFF????WEBP", "image", "image/webp"],
  ["RIFF????WAVE", "audio", "audio/wav"],
  ["ID3", "audio", "audio/mpeg"],
  ["\xff\xfb", "audio", "audio/mpeg"],
  ["OggS", "audio", "audio/ogg"],
  ["fLaC", "audio", "audio/flac"],
  ["????ftyp", "video", "video/mp4"],
  ["\x1aE\xdf\xa3", "video", "video/webm"]
]

const beginsWith = (bytes: string, signature: string): boolean =>
  Array.from(signature).every((character, index) => character === "?" || bytes[index] === character)

/** The bytes that a Base64 text stands for. */
const bytesOf = (base64: string): number =>
  Math.floor(base64.length * 3 / 4) - (base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0)

const mediaOf = (text: string, path: string): MediaPart | undefined => {
  if (text.startsWith("data:")) {
    const [head, type, kind, parameters] = DATA_URL.exec(text.slice(0, 200)) ?? []
    if (head === undefined || type === undefined) return undefined
    if (kind !== "image" && kind !== "audio" && kind !== "video") return undefined
    const body = text.length - head.length
    return {
      kind,
      path,
      source: text,
      type,
      bytes: parameters?.endsWith(";base64") === true ? bytesOf(text.slice(head.length)) : body
    }
  }
  if (text.length < SHORTEST_BASE64 || text.length % 4 !== 0 || !/^[A-Za-z0-9+/]{64}/.test(text)) return undefined
  const bytes = atob(text.slice(0, 32))
  const [, kind, type] = SIGNATURES.find(([signature]) => beginsWith(bytes, signature)) ?? []
  if (kind === undefined || type === undefined || !/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined
  return { kind, path, source: `data:${type};base64,${text}`, type, bytes: bytesOf(text) }
}

const MARKDOWN = /^#{1,6} \S|^```|^\|.+\|\s*\n\|[ :|-]+\||^(?:[-*+]|\d+[.)]) \S.*\n(?:[-*+]|\d+[.)]) \S|\*\*\S[^*\n]*\*\*/m

const isMarkdown = (text: string): boolean => text.includes("\n") && MARKDOWN.test(text)

const isCell = (value: unknown): value is Cell =>
  value === null || typeof value === "number" || typeof value === "boolean" ||
  (typeof value === "string" && value.length <= LONGEST_CELL)

const isRow = (value: unknown): value is Readonly<Record<string, Cell>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0 &&
  Object.values(value).every(isCell)

const tableOf = (values: ReadonlyArray<unknown>, path: string): TablePart | undefined => {
  if (values.length === 0 || !values.every(isRow)) return undefined
  const columns = [...new Set(values.flatMap((row) => Object.keys(row)))]
  return columns.length > MOST_COLUMNS ? undefined : { kind: "table", path, columns, rows: values }
}

/** Whether it is a picture, a sound or a film. */
export const isMedia = (part: OutputPart): part is MediaPart => part.kind !== "table" && part.kind !== "markdown"

/** Collects the parts of one output. */
class Parts {
  readonly found: Array<OutputPart> = []
  #values = 0

  #add(part: OutputPart | undefined): boolean {
    if (part === undefined) return false
    const isSame = (other: OutputPart) => isMedia(part) ? isMedia(other) : other.kind === part.kind
    const most = part.kind === "table" || part.kind === "markdown" ? MOST[part.kind] : MOST.media
    if (this.found.filter(isSame).length < most) this.found.push(part)
    return true
  }

  visit(value: unknown, path: string, depth: number): void {
    if (++this.#values > MOST.values || depth > MOST.depth) return
    if (typeof value === "string") {
      if (!this.#add(mediaOf(value, path)) && isMarkdown(value)) this.#add({ kind: "markdown", path, text: value })
    } else if (Array.isArray(value)) {
      if (!this.#add(tableOf(value, path))) value.forEach((item, index) => this.visit(item, `${path}[${index}]`, depth + 1))
    } else if (typeof value === "object" && value !== null) {
      for (const [name, item] of Object.entries(value)) this.visit(item, path === "" ? name : `${path}.${name}`, depth + 1)
    }
  }
}

/** The parts of an output, in the order of the output. */
export const partsOf = (output: unknown): ReadonlyArray<OutputPart> => {
  const parts = new Parts()
  parts.visit(output, "", 0)
  return parts.found
}

/** `image/png, 34 KB` */
export const describe = ({ bytes, type }: MediaPart): string => `${type}, ${Format.bytes(bytes)}`

/** The output with a short text in place of each medium, which is shown beside it. */
export const withoutMedia = (output: unknown): unknown => {
  const short = (value: unknown, depth: number): unknown => {
    if (depth > MOST.depth) return value
    if (typeof value === "string") {
      const media = mediaOf(value, "")
      return media === undefined ? value : `(${describe(media)})`
    }
    if (Array.isArray(value)) return value.map((item) => short(item, depth + 1))
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, short(item, depth + 1)]))
  }
  return short(output, 0)
}

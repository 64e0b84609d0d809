/**
 * Words: how the text of a job is divided into words, and whether it contains those of a query.
 *
 * ```
 *   {"name":"Ada","note":"Red\nshoes"}    -->  name ada note red shoes        a word is a run of letters and digits, in lower case
 *   input:"red shoes"                     -->  red shoes                      both, one after the other
 *   input:"red sho*"                      -->  red sho*                       the last word may be the beginning of one
 * ```
 *
 * This module alone decides what matches, for every store. A store's index of words only finds the jobs that may match; their text is compared here.
 *
 * Only the first {@link TEXT_LENGTH} characters of a text are compared, and no text outside the database. If a text is longer and its beginning does not
 * contain the words, then it is unknown whether it does: neither the term nor its negation matches, so that a bulk operation never changes such a job.
 *
 * The module is plain TypeScript, because the console loads it into browsers.
 */

/** The number of characters of an input, an output or an error that are compared. UTF-16. */
export const TEXT_LENGTH = 16_384

/** The texts of a job that a query can name. */
export const TEXT_FIELDS = ["input", "output", "error", "tags"] as const
/** A text of a job. */
export type TextField = (typeof TEXT_FIELDS)[number]

/** The keys of the terms that search for words, and the texts that each one covers. */
export const TEXT_KEYS = {
  input: ["input"],
  output: ["output"],
  text: TEXT_FIELDS
} as const satisfies Readonly<Record<string, ReadonlyArray<TextField>>>
/** A key of a term that searches for words. */
export type TextKey = keyof typeof TEXT_KEYS
/** The same keys as a list. */
export const TEXT_KEY_NAMES: ReadonlyArray<TextKey> = ["input", "output", "text"]

/** The words of a text, in order. `isCut`: the text has more words. */
export interface TextWords {
  readonly words: ReadonlyArray<string>
  readonly isCut: boolean
}

/** The words of a job's texts. */
export type JobWords = Readonly<Record<TextField, TextWords>>

/** The words that a text must contain one after the other. `isPrefix`: the last one is the beginning of a word. */
export interface Phrase {
  readonly words: ReadonlyArray<string>
  readonly isPrefix: boolean
}

/** Letters, digits and the marks that belong to letters. */
const WORD = /[\p{L}\p{N}\p{M}]+/gu
const STARTS_WITH_WORD = /^[\p{L}\p{N}\p{M}]/u

/** Whether a text ends with a word, or with half a character of one. V8 does not find a character of two units by a class before `$`. */
const endsWithWord = (text: string): boolean => {
  const [last = ""] = /(?:[\uD800-\uDBFF][\uDC00-\uDFFF]|[^])$/.exec(text) ?? []
  return STARTS_WITH_WORD.test(last) || /[\uD800-\uDBFF]$/.test(text)
}

/** In lower case, and in one form of the letters that have several. */
const folded = (text: string): string => text.normalize("NFC").toLowerCase().replaceAll("ς", "σ").normalize("NFC")

const wordsIn = (text: string): ReadonlyArray<string> => folded(text).match(WORD) ?? []

/** The texts of strings in JSON. Other escapes than those of characters, such as `\n`, separate words. */
const unescaped = (json: string): string =>
  json.includes("\\")
    ? json.replaceAll(
      /\\(?:u([0-9a-fA-F]{4})|.)/gs,
      (_, code: string | undefined) => code === undefined ? " " : String.fromCharCode(Number.parseInt(code, 16))
    )
    : json

/** The beginning of half an escape or half a character. */
const HALF = /(?:\\(?:u[0-9a-fA-F]{0,3})?|[\uD800-\uDBFF])$/

/**
 * The words of a text. `isJson`: the text is JSON. `isCut`: the text is only the beginning of a longer one, whose last word may be incomplete.
 * A text that starts with U+0001 stands for one outside the database.
 */
export const wordsOf = (
  text: string | null,
  { isCut = false, isJson }: { readonly isJson: boolean; readonly isCut?: boolean }
): TextWords => {
  if (text === null) return { words: [], isCut: false }
  if (text.charCodeAt(0) === 1) return { words: [], isCut: true }
  if (!isCut && text.length <= TEXT_LENGTH) return { words: wordsIn(isJson ? unescaped(text) : text), isCut: false }
  const beginning = text.slice(0, TEXT_LENGTH)
  // Within a run of backslashes, the last one may be the second half of an escape. It separates words in either case.
  const whole = beginning.replace(HALF, "")
  const plain = isJson ? unescaped(whole) : whole
  const words = wordsIn(plain)
  const isLastWhole = whole.length === beginning.length && !endsWithWord(plain)
  return { words: isLastWhole ? words : words.slice(0, -1), isCut: true }
}

/** The phrase of a term's value; undefined if it has no letters and digits. */
export const phraseOf = (value: string): Phrase | undefined => {
  const words = wordsIn(value)
  const trimmed = value.trimEnd()
  return words.length === 0 ? undefined : { words, isPrefix: trimmed.endsWith("*") && endsWithWord(trimmed.slice(0, -1)) }
}

const containsAt = ({ isPrefix, words }: Phrase, text: ReadonlyArray<string>, at: number): boolean =>
  words.every((word, index) => {
    const found = text[at + index]
    return found === word || (isPrefix && index === words.length - 1 && found?.startsWith(word) === true)
  })

const contains = (phrase: Phrase, { words }: TextWords): boolean =>
  words.some((_, at) => at + phrase.words.length <= words.length && containsAt(phrase, words, at))

/** Whether one of the texts contains the phrase; undefined if that is unknown. */
export const hasPhrase = (phrase: Phrase, fields: ReadonlyArray<TextField>, job: JobWords): boolean | undefined => {
  if (fields.some((field) => contains(phrase, job[field]))) return true
  return fields.some((field) => job[field].isCut) ? undefined : false
}

/** A word that one of the texts of a job must have, for an index. */
export interface WantedWord {
  readonly word: string
  readonly isPrefix: boolean
  readonly fields: ReadonlyArray<TextField>
}

/** The words that a job with the phrase has. */
export const wantedWords = ({ isPrefix, words }: Phrase, fields: ReadonlyArray<TextField>): ReadonlyArray<WantedWord> =>
  words.map((word, index) => ({ word, isPrefix: isPrefix && index === words.length - 1, fields }))

/** The letter of each text in an index. */
const LETTERS: Readonly<Record<TextField, string>> = { input: "i", output: "o", error: "x", tags: "t" }

/** The maximum length of a word in an index. Longer ones are shortened, so that an index finds more jobs than match. */
const MAX_INDEX_WORD = 64

const shortened = (word: string): string => word.length <= MAX_INDEX_WORD ? word : word.slice(0, MAX_INDEX_WORD).replace(HALF, "")

/** The word of an endpoint in an index. Endpoints may share one. */
export const endpointWord = (endpoint: string): string => `e${endpoint.toLowerCase().replaceAll(/[^a-z0-9]/g, "0")}`

/** The words of a job in an index, each once: with the letter of their text, and the endpoint. */
export const indexWords = (endpoint: string, job: JobWords): ReadonlyArray<string> => [
  ...new Set([
    endpointWord(endpoint),
    ...TEXT_FIELDS.flatMap((field) => job[field].words.flatMap((word) => word === "" ? [] : LETTERS[field] + shortened(word)))
  ])
]

/** The words of an index of which a job with the wanted word has one. */
export const indexWordsOf = (
  { fields, isPrefix, word }: WantedWord
): ReadonlyArray<{ readonly word: string; readonly isPrefix: boolean }> =>
  fields.map((field) => ({ word: LETTERS[field] + shortened(word), isPrefix }))

/**
 * The reference that a row contains when its payload is in the payload store.
 *
 * ```
 *   U+0001 KEY " " BYTES " " SHA-256 U+0001      the payload is the object KEY of the payload store
 *   U+0001 "=" JSON string U+0001                the payload is this text, which contains U+0001
 *   anything without U+0001                      the payload itself
 * ```
 *
 * JSON never contains U+0001, neither between tokens nor in a string. A caller therefore cannot send text that looks like a reference,
 * and references can be found inside a larger JSON text, such as the body of a webhook. Text that contains U+0001 is not JSON; it is stored in
 * the second form and read back unchanged.
 */
import { JsonText } from "@stint/contract/Json"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { PayloadKey } from "./PayloadStore.ts"

const MARK = "\u0001"

/** An object that holds a payload. */
export interface PayloadReference {
  readonly _tag: "Reference"
  readonly key: PayloadKey
  /** The length of the payload in UTF-8. */
  readonly bytes: number
  /** SHA-256 of those bytes, in base64url. */
  readonly digest: string
}

/** A parsed part of a row. */
export type Parsed =
  | PayloadReference
  | { readonly _tag: "Text"; readonly text: string }
  /** The part has the mark but no known form. */
  | { readonly _tag: "Broken" }

const isKey = Schema.is(PayloadKey)

const decodeText = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.String))

/** Whether the row holds a reference or escaped text. Checks one character. */
export const isEncoded = (text: string | null): text is JsonText => text !== null && text.charCodeAt(0) === 1

/** Encodes text that stays in its row. */
export const toRow = (text: JsonText): JsonText =>
  text.includes(MARK) ? JsonText.make(`${MARK}=${JSON.stringify(text)}${MARK}`) : text

/** Encodes a reference. */
export const referenceToRow = ({ bytes, digest, key }: Omit<PayloadReference, "_tag">): JsonText =>
  JsonText.make(`${MARK}${key} ${bytes} ${digest}${MARK}`)

/** Parses the text between two marks. */
const parseInner = (inner: string): Parsed => {
  if (inner.startsWith("=")) {
    return Option.match(decodeText(inner.slice(1)), {
      onNone: () => ({ _tag: "Broken" }),
      onSome: (text) => ({ _tag: "Text", text })
    })
  }
  const [, key = "", bytes = "", digest = ""] = /^(\S+) (\d{1,12}) ([A-Za-z0-9_-]{43})$/.exec(inner) ?? []
  return isKey(key) ? { _tag: "Reference", key, bytes: Number(bytes), digest } : { _tag: "Broken" }
}

/** Parses a row. */
export const parse = (row: JsonText): Parsed => {
  if (!isEncoded(row)) return { _tag: "Text", text: row }
  const end = row.indexOf(MARK, 1)
  return end === row.length - 1 && end > 0 ? parseInner(row.slice(1, end)) : { _tag: "Broken" }
}

/** The parts of text that contains rows, in order. Undefined if it contains no mark. */
export const partsOf = (text: string): ReadonlyArray<Parsed> | undefined => {
  if (!text.includes(MARK)) return undefined
  return text.split(MARK).map((part, index) => index % 2 === 0 ? { _tag: "Text", text: part } : parseInner(part))
}

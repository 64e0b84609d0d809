/**
 * What stands in a row in place of a payload that is kept elsewhere.
 *
 * ```
 *   U+0001 KEY " " BYTES " " SHA-256 U+0001      the payload is the object KEY of the payload store
 *   U+0001 "=" JSON string U+0001                the payload is this very text, which has a U+0001 in it
 *   anything without U+0001                      the payload itself
 * ```
 *
 * U+0001 cannot stand in JSON, neither between its tokens nor in a string. So no caller can send what looks like a reference, and one is found
 * wherever it was spliced into a larger JSON text, as webhooks' bodies are. A text that has one all the same is no JSON; it is kept in
 * the second form and comes back as it was.
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
  /** Of the payload as UTF-8. */
  readonly bytes: number
  /** SHA-256 of those bytes, in base64url. */
  readonly digest: string
}

/** What a part of a row says. */
export type Parsed =
  | PayloadReference
  | { readonly _tag: "Text"; readonly text: string }
  /** It has our mark, and nothing that we write. */
  | { readonly _tag: "Broken" }

const isKey = Schema.is(PayloadKey)

const decodeText = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.String))

/** Whether what a row holds is no plain payload. Looks at one character. */
export const isEncoded = (text: string | null): text is JsonText => text !== null && text.charCodeAt(0) === 1

/** A text as a row holds it, where it stays there. */
export const toRow = (text: JsonText): JsonText =>
  text.includes(MARK) ? JsonText.make(`${MARK}=${JSON.stringify(text)}${MARK}`) : text

/** A reference as a row holds it. */
export const referenceToRow = ({ bytes, digest, key }: Omit<PayloadReference, "_tag">): JsonText =>
  JsonText.make(`${MARK}${key} ${bytes} ${digest}${MARK}`)

/** What stands between two marks. */
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

/** What a row says. */
export const parse = (row: JsonText): Parsed => {
  if (!isEncoded(row)) return { _tag: "Text", text: row }
  const end = row.indexOf(MARK, 1)
  return end === row.length - 1 && end > 0 ? parseInner(row.slice(1, end)) : { _tag: "Broken" }
}

/** The parts of a text that rows were spliced into, in order; undefined where none of them was marked. */
export const partsOf = (text: string): ReadonlyArray<Parsed> | undefined => {
  if (!text.includes(MARK)) return undefined
  return text.split(MARK).map((part, index) => index % 2 === 0 ? { _tag: "Text", text: part } : parseInner(part))
}

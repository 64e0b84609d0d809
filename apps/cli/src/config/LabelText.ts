/**
 * Labels of machines as text: `gpu=a100`.
 */
import { Labels } from "@stint/contract/Placement"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** What a list of labels must be, as the end of "It must be ...". */
export const SHAPE =
  "labels such as gpu=a100, each name once; names and values are 1 to 63 letters, digits, ., - or _, and begin and end with a letter or a digit"

const decode = Schema.decodeUnknownOption(Labels)

/** The labels that the texts describe; none if one of them is not a label, or if a name occurs twice. */
export const parse = (texts: ReadonlyArray<string>): Option.Option<Labels> => {
  const pairs = texts.map((text) => {
    const at = text.indexOf("=")
    return [text.slice(0, Math.max(at, 0)), text.slice(at + 1)] as const
  })
  const isUnique = new Set(pairs.map(([name]) => name)).size === pairs.length
  return isUnique ? decode(Object.fromEntries(pairs)) : Option.none()
}

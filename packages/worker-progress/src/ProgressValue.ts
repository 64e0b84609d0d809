/**
 * What can be shown as progress: any JSON value of a bounded size. Pure.
 *
 * A value becomes text when it is reported, because its owner may change it before it is sent.
 */
import { messageOf } from "@stint/worker/Outcome"
import * as Result from "effect/Result"

/** A value as JSON text, or what is wrong with it as the end of a sentence that begins with "The progress". */
export const toText = (value: unknown, maxBytes: number): Result.Result<string, string> => {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (thrown) {
    return Result.fail(`cannot be written as JSON: ${messageOf(thrown)}.`)
  }
  // What JSON.stringify has no text for.
  if (text === undefined) {
    return Result.fail(
      `is ${
        value === undefined ? "undefined" : `a ${typeof value}`
      }, which JSON does not have. Report an object, a list, a string, a ` +
        "number, a boolean or null."
    )
  }
  // Three bytes are the most that a UTF-16 unit becomes.
  const bytes = text.length * 3 <= maxBytes ? 0 : Buffer.byteLength(text)
  return bytes <= maxBytes
    ? Result.succeed(text)
    : Result.fail(`has ${bytes} bytes, which is over the limit of ${maxBytes}. Report less, or upload it and report its address.`)
}

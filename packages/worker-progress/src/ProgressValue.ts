/**
 * Encodes a progress value: any JSON value of a bounded size. Pure.
 *
 * A value is encoded when it is reported, because the handler may change the object before it is sent.
 */
import { messageOf } from "@stint/worker/ThrownValue"
import * as Result from "effect/Result"

/** Returns the value as JSON text, or an error that completes a sentence starting with "The progress of job ...". */
export const toText = (value: unknown, maxBytes: number): Result.Result<string, string> => {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (thrown) {
    return Result.fail(`cannot be written as JSON: ${messageOf(thrown)}.`)
  }
  // JSON.stringify returns undefined for values without a JSON form.
  if (text === undefined) {
    return Result.fail(
      `is ${
        value === undefined ? "undefined" : `a ${typeof value}`
      }, which is not a JSON value. Report an object, a list, a string, a ` +
        "number, a boolean or null."
    )
  }
  // A UTF-16 code unit takes at most three bytes in UTF-8.
  const bytes = text.length * 3 <= maxBytes ? 0 : Buffer.byteLength(text)
  return bytes <= maxBytes
    ? Result.succeed(text)
    : Result.fail(`has ${bytes} bytes, but the limit is ${maxBytes}. Report a smaller value, or upload it and report its URL.`)
}

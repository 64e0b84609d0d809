/**
 * Checks the JSON of an input while the user types.
 */

/** The value, or why the text is not JSON. */
export type CheckedJson = { readonly isValid: true } | { readonly isValid: false; readonly reason: string }

/** Checks a text. The reason names the line, if the browser says where the error is. */
export const checkJson = (text: string): CheckedJson => {
  if (text.trim() === "") return { isValid: false, reason: "Write the input as JSON. {} is an input without values." }
  try {
    JSON.parse(text)
    return { isValid: true }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const position = /position (\d+)/.exec(message)?.[1]
    const line = position === undefined ? undefined : text.slice(0, Number(position)).split("\n").length
    const reason = message.replace(/ in JSON at position \d+.*$/s, "").replace(/,? ?"[\s\S]*is not valid JSON$/, "")
    return { isValid: false, reason: line === undefined ? reason : `Line ${line}: ${reason}` }
  }
}

/** The value of a text; undefined if it is not JSON. */
export const parseJson = (text: string): { readonly value: unknown } | undefined => {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

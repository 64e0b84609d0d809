/**
 * The error of a job. An exception is JSON text with six fields (docs/spec/handler.md#exceptions); other errors are plain text.
 */

/** An error in parts. */
export interface ErrorParts {
  readonly type: string | undefined
  readonly message: string
  readonly traceback: string | undefined
  readonly worker: string | undefined
}

const stringAt = (value: object, key: string): string | undefined => {
  const found: unknown = Reflect.get(value, key)
  return typeof found === "string" && found !== "" ? found : undefined
}

const SENTENCE = /^(?<message>[\s\S]*?)\s*\ntraceback: (?<traceback>[\s\S]*)$/

/** Splits an error. `<class 'ValueError'>`, as Python prints it, becomes `ValueError`. */
export const errorParts = (error: string): ErrorParts => {
  let value: unknown
  try {
    value = JSON.parse(error)
  } catch {
    value = undefined
  }
  if (typeof value === "object" && value !== null && stringAt(value, "error_message") !== undefined) {
    const type = stringAt(value, "error_type")
    return {
      type: type?.replace(/^<class '(.+)'>$/, "$1"),
      message: stringAt(value, "error_message") ?? error,
      traceback: stringAt(value, "error_traceback"),
      worker: stringAt(value, "hostname")
    }
  }
  const { message, traceback } = SENTENCE.exec(error)?.groups ?? {}
  return { type: undefined, message: message ?? error, traceback, worker: undefined }
}

/** The first line of an error, for lists. Lists contain at most 500 characters of it, which may be incomplete JSON. */
export const errorLine = (error: string): string => {
  const cut = /"error_message":\s*"((?:[^"\\]|\\.)*)/.exec(error)?.[1]
  const message = cut === undefined ? errorParts(error).message : cut.replaceAll("\\n", "\n").replaceAll("\\\"", "\"")
  return message.split("\n", 1)[0] ?? ""
}

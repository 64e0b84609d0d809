/**
 * Describes a thrown value by its type, its message and its traceback. JavaScript can throw any value, and the errors of Effect programs often
 * have more information in their fields than in their messages.
 *
 * | thrown | type | message |
 * |---|---|---|
 * | an Error with a message | its name, or its class | the message |
 * | an Error without a message, or an object with a `_tag` | the tag | the fields as JSON, then the cause: `{"image":"a.png"} (cause: Error: too small)` |
 * | `Cause.UnknownError`, in which `Effect.tryPromise` wraps a rejection | the cause's type | the cause's message |
 * | `ConfigError` | `ConfigError` | `MODEL_PATH: Expected string` |
 * | any other value | `typeof`, or `null` | its JSON text |
 *
 * Tracebacks contain the causes, but not the frames of Effect's runtime, which are the same for every error.
 */
import * as Cause from "effect/Cause"
import * as Predicate from "effect/Predicate"

/** The value of a getter, or undefined when the getter throws, which happens with some third-party errors. */
const read = (get: () => unknown): unknown => {
  try {
    return get()
  } catch {
    return undefined
  }
}

const textOr = (value: unknown, otherwise: string): string => Predicate.isString(value) && value !== "" ? value : otherwise

/** Loaded on first use: `import "node:util"` reads all its exports, which adds 3 ms to a cold start. */
const inspect = (value: unknown): string => process.getBuiltinModule("node:util").inspect(value)

/** The JSON text of any value, including one that JSON cannot represent. */
const jsonOf = (value: unknown): string => {
  try {
    return JSON.stringify(value) ?? inspect(value)
  } catch {
    return inspect(value)
  }
}

const member = (value: object, name: string): unknown => read(() => Reflect.get(value, name))

/** The `_tag` of an Effect program's error, if it is a string. */
const tagOf = (thrown: unknown): string | undefined => {
  if (!Predicate.isObject(thrown)) return undefined
  const tag = member(thrown, "_tag")
  return Predicate.isString(tag) && tag !== "" ? tag : undefined
}

/** Unwraps the value that `Effect.try` or `Effect.tryPromise` has wrapped; returns any other value unchanged. */
const unwrap = (thrown: unknown): unknown => Cause.isUnknownError(thrown) && thrown.cause !== undefined ? thrown.cause : thrown

/** The error's name, or the constructor's name when the class does not set one. */
const errorName = (error: Error): string => {
  const name = textOr(read(() => error.name), "Error")
  return name === "Error" ? textOr(read(() => error.constructor.name), name) : name
}

/** The type of a thrown value. */
export const typeOf = (thrown: unknown): string => {
  const value = unwrap(thrown)
  if (value instanceof Error) return errorName(value)
  return tagOf(value) ?? (value === null ? "null" : typeof value)
}

const OWN_WORDS = new Set(["_tag", "name", "message", "stack", "cause"])

/** The maximum number of nested causes in a message and in a traceback. */
const MAX_CAUSES = 8

/** The fields and the cause of an error without a message. */
const fieldsOf = (error: object, depth: number): string => {
  const fields = Object.keys(error).filter((key) => !OWN_WORDS.has(key) && !key.startsWith("~"))
  const cause = member(error, "cause")
  return [
    ...(fields.length === 0 ? [] : [jsonOf(Object.fromEntries(fields.map((key) => [key, member(error, key)])))]),
    ...(cause === undefined || cause === null || depth >= MAX_CAUSES ? [] : [`(cause: ${summaryOf(cause, depth + 1)})`])
  ].join(" ")
}

/** `SchemaError(Expected string\n  at ["PORT"])` becomes `PORT: Expected string`. */
const configMessage = (text: string): string => {
  const [, problem, path] = /^(?:\w+\()?([\s\S]*?)\n\s*at \["([^"]+)"\]\)?$/.exec(text) ?? []
  return problem === undefined ? text : `${path}: ${problem}`
}

const messageAt = (thrown: unknown, depth: number): string => {
  const value = unwrap(thrown)
  if (typeof value === "string") return value
  if (!Predicate.isObject(value)) return jsonOf(value)
  const tag = tagOf(value)
  if (!(value instanceof Error) && tag === undefined) return jsonOf(value)
  const own = textOr(member(value, "message"), "")
  if (tag === "ConfigError") return configMessage(own)
  return own === "" && tag !== undefined ? fieldsOf(value, depth) : own
}

/** The message of any thrown value; empty for an Error without one. */
export const messageOf = (thrown: unknown): string => messageAt(thrown, 0)

const summaryOf = (thrown: unknown, depth: number): string => {
  const message = messageAt(thrown, depth)
  const value = unwrap(thrown)
  if (!(value instanceof Error) && tagOf(value) === undefined) return message
  return message === "" ? typeOf(value) : `${typeOf(value)}: ${message}`
}

/** The message of an error that has one; the type and the fields of any other thrown value. */
export const sentence = (thrown: unknown): string => {
  const value = unwrap(thrown)
  const own = value instanceof Error ? textOr(member(value, "message"), "") : ""
  return own === "" ? summaryOf(value, 0) : own
}

/** Frames of Effect's runtime and of Node's own modules, in packages and in bundles. */
const RUNTIME_FRAME =
  /^\s+at (?:.*\((?:node:|.*[\\/]node_modules[\\/](?:effect|@effect[\\/][\w-]+)[\\/])|(?:async )?(?:node:|file:.*[\\/]node_modules[\\/](?:effect|@effect[\\/][\w-]+)[\\/])|.*~effect\/|(?:FiberImpl|MixedScheduler)\.|Generator\.next \(<anonymous>\))/

/** The frames of a stack without the runtime's frames, unless there are no others. */
const framesOf = (stack: string): ReadonlyArray<string> => {
  const frames = stack.split("\n").filter((line) => /^\s+at /.test(line))
  const own = frames.filter((line) => !RUNTIME_FRAME.test(line))
  return own.length === 0 ? frames : own
}

/** The stack of a thrown value and of its causes. */
export const traceback = (thrown: unknown, depth = 0): string => {
  const value = unwrap(thrown)
  if (!(value instanceof Error)) return summaryOf(value, depth)
  const own = [summaryOf(value, depth), ...framesOf(textOr(read(() => value.stack), ""))].join("\n")
  const cause = read(() => value.cause)
  return cause === undefined || depth >= MAX_CAUSES ? own : `${own}\n[cause]: ${traceback(cause, depth + 1)}`
}

/**
 * What a handler's end means on the wire (docs/spec/handler.md#returned-values, docs/spec/handler.md#exceptions,
 * docs/spec/worker-protocol.md#result-bodies). Pure.
 *
 * ```
 *  the handler ...                          job-done                                   the job is
 *  returns a value                          {"output": value}                          COMPLETED
 *  returns {} (or only undefined keys)      {}                                         COMPLETED
 *  returns {error: e, ...rest}              {"output": rest, "error": text of e}       FAILED
 *  returns {refresh_worker: truthy, ...}    {"output": rest, "stopPod": true}          COMPLETED, worker recycled
 *  throws                                   {"error": JSON text of six fields}         FAILED
 *  yields, and ends                         {"output": [] or all chunks}               COMPLETED
 *  yields a chunk {error: e}                {"error": text of e}                       FAILED
 * ```
 *
 * `error` and `refresh_worker` are signals wherever they stand among the own top-level keys, whatever their JSON value; a key
 * whose value does not exist in JSON (undefined, a function, a symbol) is no key at all (docs/spec/rulings.md#returned-error).
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { Identity } from "../runtime/WorkerConfig.ts"

/** The body of job-done. The job failed exactly when there is an `error`. */
export interface Outcome {
  /** Any value that JSON can hold. Absent: the caller gets no `output`. */
  readonly output?: unknown
  readonly error?: string
  /** The worker is to be recycled: it takes no more jobs and exits. */
  readonly stopPod?: true
}

/** Whether the job failed. */
export const isFailed = (outcome: Outcome): outcome is Outcome & { readonly error: string } => outcome.error !== undefined

/** A failed job. */
export const failed = (error: string): Outcome => ({ error })

/**
 * The outcome of a generator whose chunks nobody wants: local test mode without a flag (docs/spec/rulings.md#local-test-mode). Known by
 * identity.
 */
export const UNCONSUMED: Outcome = { output: "<generator, not consumed>" }

const existsInJson = (value: unknown): boolean => value !== undefined && typeof value !== "function" && typeof value !== "symbol"

/** The object that JSON would see: own enumerable keys with values. Undefined for everything that is no JSON object. */
const asDict = (value: unknown): Record<string, unknown> | undefined => {
  if (!Predicate.isObject(value)) return undefined
  const json: unknown = "toJSON" in value && typeof value.toJSON === "function" ? value.toJSON("") : value
  if (!Predicate.isObject(json)) return undefined
  return Object.fromEntries(Object.entries(json).filter(([, one]) => existsInJson(one)))
}

/** A value as the wire's `error`: a string stays, everything else becomes its JSON text. */
export const errorText = (error: unknown): string => typeof error === "string" ? error : JSON.stringify(error) ?? String(error)

/** The outcome of a returned value. */
export const fromReturned = (value: unknown): Outcome => {
  const dict = asDict(value)
  if (dict === undefined) return { output: existsInJson(value) ? value : null }
  const { error, refresh_worker, ...rest } = dict
  return {
    ...(Object.keys(rest).length > 0 ? { output: rest } : {}),
    ...("error" in dict ? { error: errorText(error) } : {}),
    ...(refresh_worker ? { stopPod: true } : {})
  }
}

/** The outcome that a chunk makes by itself, because it carries an `error`; undefined for an ordinary chunk. */
export const fromChunk = (chunk: unknown): Outcome | undefined => {
  const dict = asDict(chunk)
  return dict !== undefined && "error" in dict ? failed(errorText(dict["error"])) : undefined
}

/**
 * The outcome of a generator or stream that ended: its chunks when they are to be collected, else an empty list. What a generator
 * returned at its end is not sent; its signals (`error`, `refresh_worker`) count.
 */
export const fromStream = (collected: ReadonlyArray<unknown>, returned: unknown): Outcome => {
  const { error, stopPod } = fromReturned(returned)
  return {
    ...(error === undefined ? { output: collected } : { error }),
    ...(stopPod === undefined ? {} : { stopPod })
  }
}

/** What a getter answers; undefined when it throws. Errors of foreign code have been seen to do both strange things. */
const read = (get: () => unknown): unknown => {
  try {
    return get()
  } catch {
    return undefined
  }
}

const textOr = (value: unknown, otherwise: string): string => Predicate.isString(value) && value !== "" ? value : otherwise

/** A class that did not set its name is known by its constructor. */
const errorName = (error: Error): string => {
  const name = textOr(read(() => error.name), "Error")
  return name === "Error" ? textOr(read(() => error.constructor.name), name) : name
}

/** How many causes of causes a traceback shows. */
const MAX_CAUSES = 8

/** Fetched when it is needed: `import "node:util"` reads every export of it, which costs a cold start 3 ms. */
const inspect = (value: unknown): string => process.getBuiltinModule("node:util").inspect(value)

/** What was thrown, in words; it need not be an Error, nor anything that can become text by itself. */
export const messageOf = (thrown: unknown): string => {
  if (thrown instanceof Error) return textOr(read(() => thrown.message), "")
  if (typeof thrown === "string") return thrown
  try {
    return JSON.stringify(thrown) ?? inspect(thrown)
  } catch {
    return inspect(thrown)
  }
}

const traceback = (error: unknown, depth: number): string => {
  if (!(error instanceof Error)) return messageOf(error)
  const own = textOr(read(() => error.stack), `${errorName(error)}: ${messageOf(error)}`)
  const cause = read(() => error.cause)
  return cause === undefined || depth >= MAX_CAUSES ? own : `${own}\n[cause]: ${traceback(cause, depth + 1)}`
}

/** The report of an exception: JSON text of exactly six fields (docs/spec/handler.md#exceptions). */
export const exceptionText = (thrown: unknown, identity: Identity): string =>
  JSON.stringify({
    error_type: thrown instanceof Error ? errorName(thrown) : thrown === null ? "null" : typeof thrown,
    error_message: messageOf(thrown),
    error_traceback: traceback(thrown, 0),
    hostname: identity.hostname,
    worker_id: identity.workerId,
    runpod_version: identity.version
  })

const decodeTraceback = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({ error_traceback: Schema.String })))

/** An `error` for human eyes: of an exception its traceback, which begins with what was thrown; any other text as it is. */
export const readableError = (error: string): string =>
  Option.match(decodeTraceback(error), { onSome: (exception) => exception.error_traceback, onNone: () => error })

/** The outcome of an exception. */
export const fromException = (thrown: unknown, identity: Identity): Outcome => failed(exceptionText(thrown, identity))

/** The body of job-done as text. A value that JSON cannot hold (a cycle, a BigInt) is the handler's exception. */
export const toText = (outcome: Outcome, identity: Identity): { readonly outcome: Outcome; readonly text: string } => {
  try {
    return { outcome, text: JSON.stringify(outcome) }
  } catch (cause) {
    const error = new TypeError(
      "The handler's result cannot be written as JSON. Return objects, arrays, strings, numbers, booleans and null.",
      { cause }
    )
    const failure = { ...fromException(error, identity), ...(outcome.stopPod === undefined ? {} : { stopPod: true as const }) }
    return { outcome: failure, text: JSON.stringify(failure) }
  }
}

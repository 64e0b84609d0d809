/**
 * Converts a handler's result to the body of job-done (docs/spec/handler.md#returned-values, docs/spec/handler.md#exceptions,
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
 * `error` and `refresh_worker` are signals when they are own top-level keys, whatever their JSON value. A key whose value does not exist in
 * JSON (undefined, a function, a symbol) is ignored (docs/spec/rulings.md#returned-error).
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { Identity } from "../runtime/WorkerConfig.ts"
import * as ThrownValue from "./ThrownValue.ts"

/** The body of job-done. The job failed if and only if `error` is set. */
export interface Outcome {
  /** Any JSON value. Absent: the caller receives no `output`. */
  readonly output?: unknown
  readonly error?: string
  /** Recycles the worker: the worker takes no more jobs and exits. */
  readonly stopPod?: true
}

/** Whether the job failed. */
export const isFailed = (outcome: Outcome): outcome is Outcome & { readonly error: string } => outcome.error !== undefined

/** The outcome of a failed job. */
export const failed = (error: string): Outcome => ({ error })

/**
 * The outcome of a generator that local test mode without a flag does not consume (docs/spec/rulings.md#local-test-mode). Compared by
 * identity.
 */
export const UNCONSUMED: Outcome = { output: "<generator, not consumed>" }

const existsInJson = (value: unknown): boolean => value !== undefined && typeof value !== "function" && typeof value !== "symbol"

/** The value as a JSON object: own enumerable keys with JSON values. Undefined for any other value. */
const asDict = (value: unknown): Record<string, unknown> | undefined => {
  if (!Predicate.isObject(value)) return undefined
  const json: unknown = "toJSON" in value && typeof value.toJSON === "function" ? value.toJSON("") : value
  if (!Predicate.isObject(json)) return undefined
  return Object.fromEntries(Object.entries(json).filter(([, one]) => existsInJson(one)))
}

/** Converts a value to the `error` of job-done: strings are unchanged, other values become JSON text. */
export const errorText = (error: unknown): string => typeof error === "string" ? error : JSON.stringify(error) ?? String(error)

/** The outcome for a returned value. */
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

/** The failed outcome of a chunk with an `error`; undefined for an ordinary chunk. */
export const fromChunk = (chunk: unknown): Outcome | undefined => {
  const dict = asDict(chunk)
  return dict !== undefined && "error" in dict ? failed(errorText(dict["error"])) : undefined
}

/**
 * The outcome of a finished generator or stream: the collected chunks, or an empty list. A generator's return value is not sent, but its
 * signals (`error`, `refresh_worker`) apply.
 */
export const fromStream = (collected: ReadonlyArray<unknown>, returned: unknown): Outcome => {
  const { error, stopPod } = fromReturned(returned)
  return {
    ...(error === undefined ? { output: collected } : { error }),
    ...(stopPod === undefined ? {} : { stopPod })
  }
}

/** The report of an exception: JSON text with exactly six fields (docs/spec/handler.md#exceptions). */
export const exceptionText = (thrown: unknown, identity: Identity): string =>
  JSON.stringify({
    error_type: ThrownValue.typeOf(thrown),
    error_message: ThrownValue.messageOf(thrown),
    error_traceback: ThrownValue.traceback(thrown),
    hostname: identity.hostname,
    worker_id: identity.workerId,
    runpod_version: identity.version
  })

const decodeTraceback = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({ error_traceback: Schema.String })))

/** Makes an `error` readable: returns the traceback of an exception report, and any other text unchanged. */
export const readableError = (error: string): string =>
  Option.match(decodeTraceback(error), { onSome: (exception) => exception.error_traceback, onNone: () => error })

const decodeException = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ error_type: Schema.String, error_message: Schema.String }))
)

/** The type and the message in the report of an exception; undefined for any other `error`. */
export const exceptionOf = (error: string): { readonly type: string; readonly message: string } | undefined => {
  const exception = error.startsWith("{") ? Option.getOrUndefined(decodeException(error)) : undefined
  return exception === undefined ? undefined : { type: exception.error_type, message: exception.error_message }
}

/** The outcome for an exception. */
export const fromException = (thrown: unknown, identity: Identity): Outcome => failed(exceptionText(thrown, identity))

/**
 * The body of job-done as text. If a value cannot be serialized to JSON (a cycle, a BigInt), the job fails as if the handler had thrown.
 */
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

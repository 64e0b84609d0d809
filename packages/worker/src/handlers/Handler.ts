/**
 * Handlers: the code that runs for a job.
 *
 * Every form becomes a {@link Runnable}: a function from a job and a chunk emitter to an Effect of the outcome.
 *
 * ```
 *  Handler.make          Schemas, an Effect          decode -> run -> encode       \
 *  Handler.makeStream    Schemas, a Stream           decode -> run -> encode each   }-> Runnable -> JobRunner
 *  Handler.fromFunction  any function or generator   call, await or iterate        /
 *  Handler.fromBatchFunction  a function of several jobs at once                  /
 * ```
 *
 * The first two validate input and output; the third does not.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { withSpan } from "../runtime/Spans.ts"
import type { DeliveryError } from "../transport/ResultDelivery.ts"
import type { CurrentJob, ReceivedJob } from "./CurrentJob.ts"
import * as Outcome from "./Outcome.ts"
import { TypeId } from "./Runnable.ts"
import type { Emit, Runnable } from "./Runnable.ts"
import { previewValue } from "./ValuePreview.ts"

export { fromBatchFunction } from "./BatchFunction.ts"
export { fromFunction } from "./HandlerFunction.ts"
export type { FunctionOptions, HandlerFunction } from "./HandlerFunction.ts"
export type { Runnable } from "./Runnable.ts"

/** A handler with Schemas, which can also type clients and pipelines. */
export interface Handler<
  Name extends string,
  Input extends Schema.Constraint,
  Output extends Schema.Constraint,
  Error extends Schema.Constraint,
  out R = never
> extends Runnable<R> {
  readonly name: Name
  /** Schema of the `input` that callers send. */
  readonly input: Input
  /** Schema of the `output` that callers receive. If the handler streams, the Schema of one chunk. */
  readonly output: Output
  /** Schema of the declared failures, which callers can distinguish. A failure's JSON text becomes the job's `error`. */
  readonly error: Error
  /**
   * Whether each element of the result is a chunk. It is a literal in the types of `make` and `makeStream`, so that callers can be typed
   * from it.
   */
  readonly streams: boolean
}

/** Loads the conversion when it is needed. */
const schemaTextOf = (
  input: Schema.Constraint,
  output: Schema.Constraint,
  error: Schema.Constraint,
  streams: boolean
) =>
async () => {
  const { schemaText } = await import("./HandlerSchemaText.ts")
  const astOf = (schema: Schema.Constraint) => Schema.toCodecJson(schema).ast
  return schemaText({
    input: astOf(input),
    output: astOf(output),
    ...(SchemaAST.isNever(error.ast) ? {} : { error: astOf(error) }),
    streams
  })
}

/** The services that the runtime provides. */
type Provided = CurrentJob | Scope.Scope

/** The services that a handler and its Schemas need. */
type Needs<I extends Schema.Constraint, O extends Schema.Constraint, E extends Schema.Constraint, R> =
  | Exclude<R, Provided>
  | I["DecodingServices"]
  | O["EncodingServices"]
  | E["EncodingServices"]

/**
 * The maximum number of invalid values that an error names; further ones are only counted. This bounds the error text for a large invalid
 * list.
 */
const MAX_PROBLEMS = 20

const at = (value: unknown, path: ReadonlyArray<PropertyKey>): unknown => {
  let found = value
  for (const key of path) {
    if (typeof found !== "object" || found === null) return undefined
    found = Reflect.get(found, key)
  }
  return found
}

const formatIssue = SchemaIssue.makeFormatterStandardSchemaV1()

/**
 * The JSON codec of a number also accepts these strings, so the Schema's message for a wrong string lists them. The error should just say
 * "number".
 */
const NUMBER_AS_TEXT = `"Infinity" | "-Infinity" | "NaN"`

/** One sentence that names every invalid value by its path: `input.width: Expected number, got "wide"`. */
const describeInputIssue = (issue: SchemaIssue.Issue, input: unknown): string => {
  const { issues } = formatIssue(issue)
  const problems = issues.slice(0, MAX_PROBLEMS).map(({ message, path = [] }) => {
    const keys = path.map((segment) => typeof segment === "object" ? segment.key : segment)
    const where = keys.reduce<string>(
      (text, key) => typeof key === "number" ? `${text}[${key}]` : `${text}.${String(key)}`,
      "input"
    )
    const value = at(input, keys)
    return `${where}: ${message.replace(NUMBER_AS_TEXT, "number")}${value === undefined ? "" : `, got ${previewValue(value)}`}`
  })
  const more = issues.length > problems.length ? `; and ${issues.length - problems.length} more` : ""
  return `The input does not fit. ${problems.join("; ")}${more}`
}

/** The codecs of a handler: they decode its input, encode its output and report its declared failures. */
const schemaCodecs = <I extends Schema.Constraint, O extends Schema.Constraint, E extends Schema.Constraint>(
  input: I,
  output: O,
  error: E
) => {
  const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(input), { errors: "all" })
  const encode = Schema.encodeUnknownEffect(Schema.toCodecJson(output))
  const encodeError = Schema.encodeUnknownEffect(Schema.toCodecJson(error))
  const isDeclared = Schema.is(error)
  return {
    /** Runs `next` with the decoded input, or fails the job when the input is invalid. */
    withInput: <X, R>(
      job: ReceivedJob,
      next: (input: I["Type"]) => Effect.Effect<Outcome.Outcome, X, R>
    ): Effect.Effect<Outcome.Outcome, X, R | I["DecodingServices"]> =>
      Effect.matchEffect(withSpan("validate")(decode(job.input)), {
        onFailure: ({ issue }) => Effect.succeed(Outcome.failed(describeInputIssue(issue, job.input))),
        onSuccess: next
      }),
    /** Dies when the handler's own Schema rejects its value, because that is a bug in the handler. */
    encode: (value: unknown) => Effect.orDie(encode(value)),
    /** Declared failures become an outcome; all other failures are reported as exceptions. */
    fail: (failure: unknown): Effect.Effect<Outcome.Outcome, never, E["EncodingServices"]> =>
      isDeclared(failure)
        ? Effect.map(Effect.orDie(encodeError(failure)), (encoded) => Outcome.failed(Outcome.errorText(encoded)))
        : Effect.die(failure)
  }
}

/**
 * Makes a handler from an Effect program.
 *
 * `input` decodes the caller's input; invalid input fails the job with the path of each invalid value. `output` encodes the result.
 * `error` declares the failures that callers can distinguish: a failure's JSON text becomes the job's `error`. `run` cannot fail in any other
 * way: end other failures with `Effect.orDie`, or throw. The worker reports those as exceptions (docs/spec/handler.md#exceptions).
 *
 * The signals (docs/spec/handler.md#returned-values) apply to the encoded output: a top-level key `error` fails the job, and
 * `refresh_worker` recycles the worker. `run` has a scope, which closes when the job ends or is stopped.
 *
 * @example
 * ```ts
 * const Square = Handler.make("square", {
 *   input: Schema.Struct({ n: Schema.Number }),
 *   output: Schema.Struct({ square: Schema.Number }),
 *   run: ({ n }) => Effect.succeed({ square: n * n })
 * })
 * ```
 */
export const make = <
  const Name extends string,
  I extends Schema.Constraint,
  O extends Schema.Constraint,
  R = never,
  E extends Schema.Constraint = typeof Schema.Never
>(
  name: Name,
  options: {
    readonly input: I
    readonly output: O
    readonly error?: E
    readonly run: (input: I["Type"]) => Effect.Effect<O["Type"], E["Type"], R>
  }
): Handler<Name, I, O, E | typeof Schema.Never, Needs<I, O, E, R>> & { readonly streams: false } => {
  const { input, output, run } = options
  const error = options.error ?? Schema.Never
  const codecs = schemaCodecs(input, output, error)
  const execute = (job: ReceivedJob) =>
    codecs.withInput(job, (value) =>
      Effect.matchEffect(run(value), {
        onFailure: codecs.fail,
        onSuccess: (result) => Effect.map(codecs.encode(result), Outcome.fromReturned)
      }))
  return {
    [TypeId]: TypeId,
    name,
    input,
    output,
    error,
    streams: false,
    schemaText: schemaTextOf(input, output, error, false),
    run: (job) => Effect.scoped(execute(job))
  }
}

/** Ends a stream early with an outcome. */
interface Ended<R> {
  readonly _tag: "Ended"
  readonly outcome: Effect.Effect<Outcome.Outcome, never, R>
}

/**
 * Makes a streaming handler: its result is a Stream, and each element is one chunk of the job's stream.
 *
 * Like {@link make}, with `output` as the Schema of one chunk. `aggregate` also collects the chunks into a list that becomes the job's
 * `output`; it holds all of them in memory. Default: false, and `output` is an empty list. A chunk with a top-level key `error` is not
 * sent and fails the job (docs/spec/worker-protocol.md#result-bodies). The worker pulls one chunk at a time, so a slow platform slows the
 * handler down.
 *
 * @example
 * ```ts
 * const Countdown = Handler.makeStream("countdown", {
 *   input: Schema.Struct({ from: Schema.Int }),
 *   output: Schema.Int,
 *   run: ({ from }) => Stream.range(1, from).pipe(Stream.map((n) => from + 1 - n))
 * })
 * ```
 */
export const makeStream = <
  const Name extends string,
  I extends Schema.Constraint,
  O extends Schema.Constraint,
  R = never,
  E extends Schema.Constraint = typeof Schema.Never
>(
  name: Name,
  options: {
    readonly input: I
    readonly output: O
    readonly error?: E
    readonly aggregate?: boolean
    readonly run: (input: I["Type"]) => Stream.Stream<O["Type"], E["Type"], R>
  }
): Handler<Name, I, O, E | typeof Schema.Never, Needs<I, O, E, R>> & { readonly streams: true } => {
  const { aggregate = false, input, output, run } = options
  const error = options.error ?? Schema.Never
  const codecs = schemaCodecs(input, output, error)
  type Stop = Ended<E["EncodingServices"]>
  const ended = (outcome: Effect.Effect<Outcome.Outcome, never, E["EncodingServices"]>): Stop => ({ _tag: "Ended", outcome })
  const consume = (value: I["Type"], emit: Emit) =>
    Effect.suspend(() => {
      const collected: Array<unknown> = []
      return Stream.runForEach(
        Stream.mapError(run(value), (failure) => ended(codecs.fail(failure))),
        (element) =>
          Effect.flatMap(codecs.encode(element), (chunk): Effect.Effect<void, Stop | DeliveryError> => {
            const failure = Outcome.fromChunk(chunk)
            if (failure !== undefined) return Effect.fail(ended(Effect.succeed(failure)))
            if (aggregate) collected.push(chunk)
            return emit(chunk)
          })
      ).pipe(
        Effect.map(() => Outcome.fromStream(collected, undefined)),
        Effect.catchTag("Ended", ({ outcome }) => outcome)
      )
    })
  return {
    [TypeId]: TypeId,
    name,
    input,
    output,
    error,
    streams: true,
    schemaText: schemaTextOf(input, output, error, true),
    run: (job, emit) =>
      emit === undefined
        ? Effect.succeed(Outcome.UNCONSUMED)
        : Effect.scoped(codecs.withInput(job, (value) => consume(value, emit)))
  }
}

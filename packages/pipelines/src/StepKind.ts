/**
 * Kinds of steps: named steps with Schemas that a package exports for use in other pipelines.
 *
 * ```ts
 * export const Split = StepKind.make("words.split", {
 *   input: Schema.String,
 *   output: Schema.Array(Schema.String),
 *   options: Schema.Struct({ by: Schema.String }),
 *   run: (text, { by }) => text.split(by)
 * })
 *
 * Pipeline.make("words", { input: Schema.String }).use("split", Split, { with: { by: " " } })
 * ```
 *
 * A kind of stream, made with `makeStream`, returns a Stream or an async iterable. Its chunks are sent as chunks of the run, and its output is the
 * list of them.
 *
 * A `*.pipeline.json` uses a kind by its name: `{ "name": "split", "use": "words.split", "with": { "by": " " } }`. Such a kind must not need
 * services, because a file provides none.
 */
import type * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { StepContext } from "./StepContext.ts"

/** Marks kinds. A string, because the kind and the pipeline may use different copies of this package. */
const TypeId = "~@stint/pipelines/StepKind"

/** What a step may return. */
type Returned<A, R> = A | PromiseLike<A> | Effect.Effect<A, unknown, R>

/** A kind of step. `R` are the services that its steps need. */
export interface StepKind<
  Name extends string,
  I extends Schema.Constraint,
  O extends Schema.Constraint,
  Options extends Schema.Constraint,
  out R = never
> {
  readonly [TypeId]: typeof TypeId
  readonly name: Name
  readonly input: I
  readonly output: O
  readonly options: Options
  readonly run: (input: I["Type"], options: Options["Type"], context: StepContext) => unknown
  /** Exists only in the type. */
  readonly "~services"?: () => R
}

/** A kind of stream. Its `output` is the Schema of one chunk. */
export interface StreamKind<
  Name extends string,
  I extends Schema.Constraint,
  O extends Schema.Constraint,
  Options extends Schema.Constraint,
  out R = never
> extends StepKind<Name, I, O, Options, R> {
  readonly streams: true
}

/** Any kind. */
export interface Any {
  readonly [TypeId]: typeof TypeId
  readonly name: string
  readonly input: Schema.ConstraintCodec<unknown, unknown>
  readonly output: Schema.ConstraintCodec<unknown, unknown>
  readonly options: Schema.ConstraintCodec<unknown, unknown>
  readonly streams?: true
  run(input: unknown, options: unknown, context: StepContext): unknown
  readonly "~services"?: () => unknown
}

/** The services that the steps of a kind need. */
export type Services<K> = K extends { readonly "~services"?: () => infer R } ? R : never

/** What a step of a kind produces. For a stream, the list of its chunks. */
export type OutputOf<K extends Any> = K extends { readonly streams: true } ? ReadonlyArray<K["output"]["Type"]>
  : K["output"]["Type"]

const NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,99}$/

/** Whether a string can be the name of a kind. */
export const isName = (name: string): boolean => NAME.test(name)

/** The rule for names of kinds, for messages. */
export const NAME_RULE =
  "1 to 100 letters, digits, \"_\", \"-\" and \".\"; the first one is a letter or \"_\". Begin it with the name of your package: \"words.split\""

/** Whether a value is a kind. */
export const isStepKind = (value: unknown): value is Any => Predicate.isObject(value) && TypeId in value

/** No options. */
const NoOptions = Schema.Struct({})

/** Whether the steps of a kind have options. */
export const hasOptions = ({ options }: Any): boolean =>
  !("fields" in options && Predicate.isObject(options.fields) && Object.keys(options.fields).length === 0)

/**
 * Makes a kind of step. `run` is a function that returns a value, a promise or an Effect. Its second argument is the step's options, and its third is
 * the context of the step. Pass `idempotencyKey` to services that must not do the same thing twice.
 *
 * Throws a TypeError when the name is invalid.
 */
export const make = <
  const Name extends string,
  I extends Schema.ConstraintCodec<unknown, unknown>,
  O extends Schema.ConstraintCodec<unknown, unknown>,
  Options extends Schema.ConstraintCodec<unknown, unknown> = typeof NoOptions,
  R = never
>(
  name: Name,
  definition: {
    readonly input: I
    readonly output: O
    /** The options for a step. Default: none. */
    readonly options?: Options
    readonly run: (input: I["Type"], options: Options["Type"], context: StepContext) => Returned<O["Type"], R>
  }
): StepKind<Name, I, O, Options, Exclude<R, Scope.Scope>> => {
  checkName(name)
  const { input, options, output, run } = definition
  return { [TypeId]: TypeId, name, input, output, options: orNone(options), run }
}

/**
 * Makes a kind of stream. `run` is a function that returns a Stream or an async iterable, such as an async generator. After a crash it runs again.
 * Chunks that callers have already received are not sent again.
 *
 * Throws a TypeError when the name is invalid.
 */
export const makeStream = <
  const Name extends string,
  I extends Schema.ConstraintCodec<unknown, unknown>,
  O extends Schema.ConstraintCodec<unknown, unknown>,
  Options extends Schema.ConstraintCodec<unknown, unknown> = typeof NoOptions,
  R = never
>(
  name: Name,
  definition: {
    readonly input: I
    /** One chunk. */
    readonly output: O
    /** The options for a step. Default: none. */
    readonly options?: Options
    readonly run: (
      input: I["Type"],
      options: Options["Type"],
      context: StepContext
    ) => Stream.Stream<O["Type"], unknown, R> | AsyncIterable<O["Type"]>
  }
): StreamKind<Name, I, O, Options, Exclude<R, Scope.Scope>> => {
  checkName(name)
  const { input, options, output, run } = definition
  return { [TypeId]: TypeId, name, input, output, options: orNone(options), run, streams: true }
}

const checkName = (name: string): void => {
  if (!NAME.test(name)) throw new TypeError(`"${name}" is not a valid name for a kind of step. Use ${NAME_RULE}.`)
}

/** `Options` is the type of {@link NoOptions} if the caller gives none. */
function orNone<Options>(options: Options | undefined): Options
function orNone(options: unknown): unknown {
  return options ?? NoOptions
}

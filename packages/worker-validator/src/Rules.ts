/**
 * Rules for a job's input, as a plain record, and the types derived from them (docs/spec/validator.md#rules).
 *
 * ```ts
 * const rules = {
 *   prompt: { type: "str", required: true },
 *   width: { type: "int", default: 512, constraints: (width) => width % 8 === 0 || "must be a multiple of 8" },
 *   seed: { type: "int", required: false },
 *   images: {
 *     type: "list",
 *     default: [],
 *     items: { type: "dict", rules: { url: { type: "str", required: true } } }
 *   }
 * }
 * ```
 *
 * Each rule specifies what happens when its key is missing: `required: true` makes that an error, even with a `default`; otherwise a
 * `default` is filled in, and `required: false` without one leaves the key out.
 */

/** The names of the string type. */
export type StringType = "str" | "string" | StringConstructor

/**
 * The names of the integer type: a number without a fraction that JavaScript represents exactly (up to 2^53 - 1). JSON does not
 * distinguish `1.0` from `1`; both are integers.
 */
export type IntegerType = "int" | "integer"

/** The names of the number type: any finite number, integers included. */
export type NumberType = "float" | "number" | NumberConstructor

/** The names of the boolean type: only `true` and `false`, not `1` or `"true"`. */
export type BooleanType = "bool" | "boolean" | BooleanConstructor

/** The names of the list type; `items` is the rule for its elements. */
export type ListType = "list" | "array" | ArrayConstructor

/** The names of the object type; `rules` specifies its keys. */
export type DictType = "dict" | "object" | ObjectConstructor

/** The names of the type of null. In a list of types it makes the rule nullable. */
export type NullType = "null" | "None" | null

/** A type: its Python name, its JSON Schema name or its JavaScript constructor, which mean the same. */
export type Type = StringType | IntegerType | NumberType | BooleanType | ListType | DictType | NullType

/**
 * The result of a constraint: a truthy value if the value is valid, a falsy value if it is not, or a message that says what is wrong ("must
 * be a multiple of 8"). A promise is an error.
 */
export type ConstraintResult = unknown

/** The options for every rule; `T` is the type that constraints receive, `D` the type of the default. */
interface Common<in T, out D> {
  /**
   * Checks a value of the right type, with nested defaults filled in, as the handler receives it. It must be synchronous and must not
   * change the value. An exception becomes an error for this field. It is not called for `null`.
   */
  readonly constraints?: (value: T) => ConstraintResult
  /**
   * The value of a missing key, as a new copy for each input. It must meet the rule, which is checked once, when the rules are parsed.
   * `null` makes the rule nullable.
   */
  readonly default?: D | null
  /** Whether `null` is valid. Default: true if `default` is `null`, otherwise false. */
  readonly nullable?: boolean
}

/** The options for a list's rule. */
interface Items {
  /** The rule for each element. Every element is then checked, which costs time for long lists. Default: any value. */
  readonly items?: ItemRule
}

/** The options for an object's rule. */
interface Keys {
  /** The rules of its keys; other keys are rejected, as at the top level. Default: any keys with any values. */
  readonly rules?: Rules
}

/** One union member for each name, so that TypeScript infers the parameter of `constraints` from `type`. */
type Typed<Word, Rest> = Word extends unknown ? { readonly type: Word } & Rest : never

/** The requirements for a value. */
type ValueRule =
  | Typed<StringType, Common<string, string>>
  | Typed<IntegerType | NumberType, Common<number, number>>
  | Typed<BooleanType, Common<boolean, boolean>>
  | Typed<ListType, Common<Array<unknown>, ReadonlyArray<unknown>> & Items>
  | Typed<DictType, Common<Record<string, unknown>, Readonly<Record<string, unknown>>> & Keys>
  | Typed<NullType, Common<null, null>>
  | Typed<readonly [Type, ...ReadonlyArray<Type>], Common<never, unknown> & Items & Keys>

/**
 * The rule for the elements of a list: a {@link Rule} without `required` and `default`.
 */
export type ItemRule = ValueRule & { readonly required?: never; readonly default?: never }

/**
 * The rule for one key of the input. Its keys: `type`, `required`, `default`, `nullable`, `constraints`, `items`, `rules`.
 *
 * With several types, as in `type: ["str", "int"]`, a value of any of them is valid. Constraints must then declare the type of their
 * parameter:
 * `constraints: (size: string | number) => size !== ""`.
 */
export type Rule = ValueRule & {
  /** Whether the key must be present. Needed unless the rule has a default. */
  readonly required?: boolean
}

/** A rule for each key of the input. */
export interface Rules {
  readonly [name: string]: Rule
}

type Flat<T> = { [K in keyof T]: T[K] }

type Null<R> = R extends { readonly nullable: true } | { readonly default: null } ? null : never

/** The TypeScript type of each member of a union of rule types. */
type Each<T, R, Filled extends boolean> = T extends StringType ? string
  : T extends IntegerType | NumberType ? number
  : T extends BooleanType ? boolean
  : T extends NullType ? null
  : T extends ListType ? R extends { readonly items: infer I } ? Array<ValueOf<I, Filled>> : Array<unknown>
  : T extends DictType ? R extends { readonly rules: infer N } ? Filled extends true ? Validated<N> : Accepted<N>
    : Record<string, unknown>
  : never

type ValueOf<R, Filled extends boolean> =
  | (R extends { readonly type: infer T } ? Each<T extends ReadonlyArray<infer One> ? One : T, R, Filled> : never)
  | Null<R>

/** The keys that must be present before defaults are filled in (`Required`) and after (`Present`). */
type Keyed<R, Way> = { [K in keyof R]: R[K] extends Way ? K : never }[keyof R]
type Required<R> = Keyed<R, { readonly required: true }>
type Present<R> = Keyed<R, { readonly required: true } | { readonly default: {} | null }>

/**
 * The type of the input after validation, with its defaults.
 *
 * @example
 * ```ts
 * const rules = { width: { type: "int", default: 512 } } as const satisfies Validator.Rules
 * type Input = Validator.Validated<typeof rules> // { width: number }
 * ```
 */
export type Validated<R> = Flat<
  & { -readonly [K in Present<R>]: ValueOf<R[K], true> }
  & { -readonly [K in Exclude<keyof R, Present<R>>]?: ValueOf<R[K], true> }
>

/** The type of the input that callers send: like {@link Validated}, but keys with a default are optional. */
export type Accepted<R> = Flat<
  & { -readonly [K in Required<R>]: ValueOf<R[K], false> }
  & { -readonly [K in Exclude<keyof R, Required<R>>]?: ValueOf<R[K], false> }
>

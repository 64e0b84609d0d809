/**
 * Rules for the input of a job, as a plain record, and the types that follow from them.
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
 * A key comes in one of three ways, and each rule says in which: `required: true`, it must be there; a `default`, it is filled in;
 * `required: false`, it may stay absent.
 */

/** The words for a text. */
export type StringType = "str" | "string" | StringConstructor

/**
 * The words for a number without a fraction that JavaScript holds exactly (up to 2^53 - 1). JSON does not tell `1.0` from `1`: both
 * are integers.
 */
export type IntegerType = "int" | "integer"

/** The words for any finite number; integers are numbers, too. */
export type NumberType = "float" | "number" | NumberConstructor

/** The words for `true` or `false`. Nothing else counts as one, `1` and `"true"` included. */
export type BooleanType = "bool" | "boolean" | BooleanConstructor

/** The words for a list; `items` says of what. */
export type ListType = "list" | "array" | ArrayConstructor

/** The words for an object; `rules` says with which keys. */
export type DictType = "dict" | "object" | ObjectConstructor

/** One type: Python's word, JSON Schema's word or JavaScript's constructor, which mean the same. */
export type Type = StringType | IntegerType | NumberType | BooleanType | ListType | DictType

/** What a constraint answers: whether the value is good, or what is wrong with it ("must be a multiple of 8"). */
export type ConstraintResult = boolean | string

/** What every rule may say; `T` is the value as constraints see it, `D` what can stand for it as a default. */
interface Common<in T, out D> {
  /**
   * Looks at a value of the right type, as the handler will get it: nested defaults are filled in. It must be synchronous and change
   * nothing. What it throws is an error of this field, never a crash. It does not see `null`.
   */
  readonly constraints?: (value: T) => ConstraintResult
  /**
   * Stands in where the key is absent, as a fresh copy each time. It has to meet the rule itself, which is checked once, with the
   * rules. `null` makes the rule nullable.
   */
  readonly default?: D | null
  /** Whether `null` is a value, too. Default: only where the default is `null`. */
  readonly nullable?: boolean
}

/** What a rule for a list may say. */
interface Items {
  /** What each item has to be. It costs a look at each of them. Default: anything. */
  readonly items?: ItemRule
}

/** What a rule for an object may say. */
interface Keys {
  /** The keys, by the same kind of rules; others are refused, as at the top. Default: any keys, with any values. */
  readonly rules?: Rules
}

/** One member for each word: TypeScript can then tell from `type` what the parameter of `constraints` is. */
type Typed<Word, Rest> = Word extends unknown ? { readonly type: Word } & Rest : never

/** What a value has to be. */
type ValueRule =
  | Typed<StringType, Common<string, string>>
  | Typed<IntegerType | NumberType, Common<number, number>>
  | Typed<BooleanType, Common<boolean, boolean>>
  | Typed<ListType, Common<Array<unknown>, ReadonlyArray<unknown>> & Items>
  | Typed<DictType, Common<Record<string, unknown>, Readonly<Record<string, unknown>>> & Keys>
  | Typed<readonly [Type, ...ReadonlyArray<Type>], Common<never, unknown> & Items & Keys>

/**
 * What the items of a list have to be. As {@link Rule}, but for `required` and `default`: an item is there or it is not.
 */
export type ItemRule = ValueRule & { readonly required?: never; readonly default?: never }

/**
 * What one key of the input has to be. The keys of a rule: `type`, and `required`, `default`, `nullable`, `constraints`, `items`, `rules`.
 *
 * Several types, as in `type: ["str", "int"]`, accept each of them. Constraints then have to name the type of their parameter:
 * `constraints: (size: string | number) => size !== ""`.
 */
export type Rule = ValueRule & {
  /** Whether the key must be there. Each rule says so, or has a default. */
  readonly required?: boolean
}

/** A rule for each key of the input. */
export interface Rules {
  readonly [name: string]: Rule
}

type Flat<T> = { [K in keyof T]: T[K] }

type Null<R> = R extends { readonly nullable: true } | { readonly default: null } ? null : never

/** What each of several types stands for. */
type Each<T, R, Filled extends boolean> = T extends StringType ? string
  : T extends IntegerType | NumberType ? number
  : T extends BooleanType ? boolean
  : T extends ListType ? R extends { readonly items: infer I } ? Array<ValueOf<I, Filled>> : Array<unknown>
  : T extends DictType ? R extends { readonly rules: infer N } ? Filled extends true ? Validated<N> : Accepted<N>
    : Record<string, unknown>
  : never

type ValueOf<R, Filled extends boolean> =
  | (R extends { readonly type: infer T } ? Each<T extends ReadonlyArray<infer One> ? One : T, R, Filled> : never)
  | Null<R>

/** The keys that must be there before, and those that are there after, defaults are filled in. */
type Keyed<R, Way> = { [K in keyof R]: R[K] extends Way ? K : never }[keyof R]
type Required<R> = Keyed<R, { readonly required: true }>
type Present<R> = Keyed<R, { readonly required: true } | { readonly default: {} | null }>

/**
 * The input after validation: typed field by field, defaults filled in.
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

/** The input that callers may send: as {@link Validated}, without the keys that have a default, if they like. */
export type Accepted<R> = Flat<
  & { -readonly [K in Required<R>]: ValueOf<R[K], false> }
  & { -readonly [K in Exclude<keyof R, Required<R>>]?: ValueOf<R[K], false> }
>

/**
 * The parsed form of rules: type words are resolved, defaults are checked and complete.
 *
 * ```
 *   Node (the input: an object)
 *    `- keys --+-- Field "width"  -> Node (an integer), default 512
 *              `-- Field "images" -> Node (an array)
 *                                     `- item -> Node (an object)
 *                                                 `- keys --- Field "url" -> Node (a string), required
 * ```
 */

/** A type of value, named as in JSON Schema. */
export type Kind = "string" | "integer" | "number" | "boolean" | "array" | "object"

/** The requirements for one value. */
export interface Node {
  /** The value must be of one of these types. */
  readonly kinds: ReadonlyArray<Kind>
  /** Whether null is valid too. */
  readonly nullable: boolean
  /** Called after the type check passes. Its return value is checked before it is used. */
  readonly constraints: ((value: unknown) => unknown) | undefined
  /** The requirements for each element of an array. */
  readonly item: Node | undefined
  /** The keys of an object. */
  readonly keys: Keys | undefined
}

/** The keys of an object, in the order of the rules. */
export interface Keys {
  readonly fields: ReadonlyArray<Field>
  readonly names: ReadonlySet<PropertyKey>
}

/** One key of an object. */
export interface Field {
  readonly name: string
  readonly node: Node
  readonly required: boolean
  /** The value of a missing key. Copy it before use. */
  readonly default: { readonly value: unknown } | undefined
}

/** Whether a value is an object, but not an array or null. */
export const isRecord = (value: unknown): value is Readonly<Record<PropertyKey, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Whether a value is an array. */
export const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

/** The value of an object's own key. A key whose value is undefined counts as missing, as in JSON. */
export const ownValue = (dict: Readonly<Record<PropertyKey, unknown>>, key: PropertyKey): unknown =>
  Object.hasOwn(dict, key) ? dict[key] : undefined

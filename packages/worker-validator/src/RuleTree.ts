/**
 * Rules as the checks walk along them: every word looked up, every default checked and filled in.
 *
 * ```
 *   Node (the input: an object)
 *    `- keys --+-- Field "width"  -> Node (an integer), default 512
 *              `-- Field "images" -> Node (an array)
 *                                     `- item -> Node (an object)
 *                                                 `- keys --- Field "url" -> Node (a string), required
 * ```
 */

/** What a value can be, in JSON Schema's words. */
export type Kind = "string" | "integer" | "number" | "boolean" | "array" | "object"

/** What a value has to be. */
export interface Node {
  /** Any of these. */
  readonly kinds: ReadonlyArray<Kind>
  /** Or null. */
  readonly nullable: boolean
  /** Looks at the value once its type is known to be right. What it answers is not trusted. */
  readonly constraints: ((value: unknown) => unknown) | undefined
  /** What each item of an array has to be. */
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
  /** What stands in for it; to be copied before it is given away. */
  readonly default: { readonly value: unknown } | undefined
}

/** Something with keys: no array, no null. */
export const isRecord = (value: unknown): value is Readonly<Record<PropertyKey, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** An array of anything. */
export const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

/** The value of an object's own key. A key whose value is undefined does not exist in JSON, and is absent here, too. */
export const ownValue = (dict: Readonly<Record<PropertyKey, unknown>>, key: PropertyKey): unknown =>
  Object.hasOwn(dict, key) ? dict[key] : undefined

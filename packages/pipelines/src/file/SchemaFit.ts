/**
 * Whether every value of one JSON Schema is also a value of another, as far as the schemas specify it.
 *
 * It finds what the compiler finds in TypeScript: a wrong type, a missing member, or a string that is not allowed. It does not compare lengths,
 * bounds and patterns; the step checks those when it runs. Anything fits an unspecified part.
 */
import type { Json } from "@stint/contract/Json"
import * as Predicate from "effect/Predicate"

/** A JSON Schema (draft 2020-12). References are to its own `$defs`. */
export type JsonSchema = { readonly [key: string]: unknown }

/** A schema with the definitions that its references name. */
export interface Shape {
  readonly schema: JsonSchema
  readonly defs: JsonSchema
}

/** A place at which a value does not fit. `path`: relative to the value, such as `.words[]`; empty for the value itself. */
export interface Misfit {
  readonly path: string
  readonly message: string
}

const isSchema = (value: unknown): value is JsonSchema => Predicate.isObject(value) && !Array.isArray(value)

/** The shape of a complete schema. Undefined or a boolean: anything. */
export const shapeOf = (schema: unknown): Shape =>
  isSchema(schema) ? { schema, defs: isSchema(schema["$defs"]) ? schema["$defs"] : {} } : { schema: {}, defs: {} }

const REFERENCE = /^#\/\$defs\/(.+)$/

/** The maximum length of a chain of references, so that a cycle ends. */
const MAX_REFERENCES = 16

/** The maximum number of misfits that are reported for a value. */
const MAX_MISFITS = 100

/** The key of a schema that is inside another one but has its own definitions. */
const OWN = "~own"

const isShape = (value: unknown): value is Shape => isSchema(value) && isSchema(value["schema"]) && isSchema(value["defs"])

/** A shape as a part of a schema with other definitions. */
const embedded = (shape: Shape): JsonSchema => Object.keys(shape.defs).length === 0 ? shape.schema : { [OWN]: shape }

const inside = ({ defs }: Shape, schema: unknown): Shape => {
  if (!isSchema(schema)) return { schema: {}, defs }
  const own = schema[OWN]
  return resolved(isShape(own) ? own : { schema, defs })
}

const resolved = (shape: Shape, depth = 0): Shape => {
  const { $ref } = shape.schema
  if (typeof $ref !== "string" || depth > MAX_REFERENCES) return shape
  const name = REFERENCE.exec($ref)?.[1]?.replaceAll("~1", "/").replaceAll("~0", "~")
  const found = name === undefined ? undefined : shape.defs[name]
  return resolved({ schema: isSchema(found) ? found : {}, defs: shape.defs }, depth + 1)
}

const list = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

const NOT_FINITE = new Set<unknown>(["NaN", "Infinity", "-Infinity"])

/** The strings that stand for numbers that JSON cannot represent. A Schema for numbers allows them, and no other Schema does. */
const isNotFinite = ({ enum: values, type }: JsonSchema): boolean =>
  type === "string" && Array.isArray(values) && values.every((value) => NOT_FINITE.has(value))

/** The alternatives of a shape: the members of its `anyOf` or `oneOf`, or the shape itself. */
const alternatives = (shape: Shape): ReadonlyArray<Shape> => {
  const all = [...list(shape.schema["anyOf"]), ...list(shape.schema["oneOf"])].map((one) => inside(shape, one))
  const finite = all.filter(({ schema }) => !isNotFinite(schema))
  return all.length === 0 ? [shape] : finite.length > 0 ? finite.flatMap(alternatives) : all
}

/** The values that a shape allows, if they are listed. */
const valuesOf = ({ schema }: Shape): ReadonlyArray<unknown> | undefined =>
  "const" in schema ? [schema["const"]] : Array.isArray(schema["enum"]) ? schema["enum"] : undefined

const typeOf = (value: unknown): string => value === null ? "null" : Array.isArray(value) ? "array" : typeof value

/** The types of a shape's values; empty if unspecified. */
const typesOf = (shape: Shape): ReadonlyArray<string> => {
  const { type } = shape.schema
  const named = typeof type === "string" ? [type] : list(type).filter((one) => typeof one === "string")
  if (named.length > 0) return named.map((one) => one === "integer" ? "number" : one)
  return [...new Set((valuesOf(shape) ?? []).map(typeOf))]
}

/** The members that an object of this shape may have, by name. */
const membersOf = ({ schema }: Shape): JsonSchema => isSchema(schema["properties"]) ? schema["properties"] : {}

const requiredOf = ({ schema }: Shape): ReadonlyArray<string> =>
  list(schema["required"]).filter((one): one is string => typeof one === "string")

/** Names that match a pattern do not count as additional properties, and patterns are not compared. */
const isClosed = ({ schema }: Shape): boolean =>
  schema["additionalProperties"] === false && schema["patternProperties"] === undefined

/** Whether `items` describes only the remaining elements. */
const isTuple = ({ schema }: Shape): boolean => "prefixItems" in schema

/** Marks the schemas of {@link objectOf}. */
const WRITTEN = "x-written"

/** A shape in a few words: `array of string`. */
export const describe = (given: Shape, depth = 0): string => {
  const shape = resolved(given)
  const several = alternatives(shape)
  if (several.length > 1) return [...new Set(several.map((one) => describe(one, depth)))].join(" or ")
  const [only = shape] = several
  const values = valuesOf(only)
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(" or ")
  const types = typesOf(only)
  if (types.length === 0) return "any value"
  if (depth > 2) return types.join(" or ")
  return types.map((type) => {
    if (type === "array" && only.schema["items"] !== undefined && !isTuple(only)) {
      return `array of ${describe(inside(only, only.schema["items"]), depth + 1)}`
    }
    const names = Object.keys(membersOf(only))
    return type === "object" && names.length > 0 ? `object with ${names.join(", ")}` : type
  }).join(" or ")
}

/** The pairs that were compared, so that the comparison of recursive schemas ends and no pair is compared twice. */
class Compared {
  readonly #misfits = new Map<JsonSchema, Map<JsonSchema, ReadonlyArray<Misfit>>>()
  /** The pairs that fit, in the order in which they were compared. */
  readonly #fitting: Array<readonly [given: JsonSchema, taken: JsonSchema]> = []

  misfits(given: Shape, taken: Shape): ReadonlyArray<Misfit> {
    const known = this.#misfits.get(given.schema)?.get(taken.schema)
    if (known !== undefined) return known
    const before = this.#fitting.length
    // A pair is assumed to fit while it is being compared.
    this.#fitting.push([given.schema, taken.schema])
    this.#set(given, taken, [])
    const found = misfitsOfAlternatives(given, taken, this).slice(0, MAX_MISFITS)
    if (found.length === 0) return found
    // Pairs that were compared in the meantime may fit only because of that assumption.
    for (const [one, other] of this.#fitting.splice(before)) this.#misfits.get(one)?.delete(other)
    this.#set(given, taken, found)
    return found
  }

  #set(given: Shape, taken: Shape, found: ReadonlyArray<Misfit>): void {
    const row = this.#misfits.get(given.schema)
    if (row === undefined) this.#misfits.set(given.schema, new Map([[taken.schema, found]]))
    else row.set(taken.schema, found)
  }
}

/** The places at which a value of `given` is not a value of `taken`. */
export const misfits = (given: Shape, taken: Shape): ReadonlyArray<Misfit> => misfitsAt("", given, taken, new Compared())

const misfitsAt = (at: string, given: Shape, taken: Shape, compared: Compared): ReadonlyArray<Misfit> =>
  compared.misfits(resolved(given), resolved(taken)).map(({ message, path }) => ({ path: `${at}${path}`, message }))

const misfitsOfAlternatives = (given: Shape, taken: Shape, compared: Compared): ReadonlyArray<Misfit> => {
  const wanted = alternatives(taken)
  return alternatives(given).flatMap((one) => {
    const tried = wanted.map((want) => misfitsOfOne(one, want, compared))
    if (tried.some((found) => found.length === 0) || fitsInParts(one, wanted, compared)) return []
    const [first = []] = tried
    return tried.length === 1 ? first : [{ path: "", message: `is ${describe(one)}, but must be ${describe(taken)}` }]
  })
}

/** Splits a shape without alternatives into one for each value or type that it lists. */
const partsOf = (shape: Shape): ReadonlyArray<Shape> => {
  const { type } = shape.schema
  const values = valuesOf(shape) ?? (type === "boolean" ? [true, false] : undefined)
  return values === undefined
    ? list(type).map((one) => ({ schema: { ...shape.schema, type: one }, defs: shape.defs }))
    : values.map((value) => ({ schema: { const: value }, defs: {} }))
}

/** Whether each part of a shape fits one of the alternatives: `string or null` can be written as a list of types or as alternatives. */
const fitsInParts = (given: Shape, wanted: ReadonlyArray<Shape>, compared: Compared): boolean => {
  const parts = partsOf(given)
  return parts.length > 1 &&
    parts.every((part) =>
      wanted.some((want) => misfitsOfOne(part, want, compared).length === 0) || fitsInParts(part, wanted, compared)
    )
}

const misfitsOfOne = (given: Shape, taken: Shape, compared: Compared): ReadonlyArray<Misfit> => {
  const allowed = valuesOf(taken)
  const values = valuesOf(given)
  const wrong = () => [{ path: "", message: `is ${describe(given)}, but must be ${describe(taken)}` }]
  if (allowed !== undefined) {
    if (values === undefined) return typesOf(given).length === 0 ? [] : wrong()
    return values.every((value) => allowed.includes(value)) ? [] : wrong()
  }
  const [types, wanted] = [typesOf(given), typesOf(taken)]
  if (types.length === 0 || wanted.length === 0) return []
  if (!types.every((type) => wanted.includes(type))) return wrong()
  if (types.includes("array")) {
    const items = given.schema["items"]
    return items === undefined || isTuple(given) || isTuple(taken)
      ? []
      : misfitsAt("[]", inside(given, items), inside(taken, taken.schema["items"]), compared)
  }
  return types.includes("object") ? misfitsOfMembers(given, taken, compared) : []
}

const misfitsOfMembers = (given: Shape, taken: Shape, compared: Compared): ReadonlyArray<Misfit> => {
  const [members, wanted] = [membersOf(given), membersOf(taken)]
  const certain = new Set(requiredOf(given))
  const missing = Object.keys(members).length === 0 && !isClosed(given)
    ? []
    : requiredOf(taken).filter((name) => !certain.has(name))
  const unknown = given.schema[WRITTEN] === true && isClosed(taken)
    ? Object.keys(members).filter((name) => !Object.hasOwn(wanted, name))
    : []
  return [
    ...missing.map((name) => ({
      path: `.${name}`,
      message: Object.hasOwn(members, name)
        ? `may be missing, but must be ${describe(inside(taken, wanted[name]))}`
        : `is missing; it must be ${describe(inside(taken, wanted[name]))}`
    })),
    ...unknown.map((name) => ({
      path: `.${name}`,
      message: `is not taken here; known are ${Object.keys(wanted).join(", ") || "no members"}`
    })),
    ...Object.entries(wanted).flatMap(([name, schema]) =>
      Object.hasOwn(members, name) ? misfitsAt(`.${name}`, inside(given, members[name]), inside(taken, schema), compared) : []
    )
  ]
}

/** The shape of one member of a value, or the names of the members that it has instead. */
export const memberOf = (given: Shape, key: string | number): Shape | { readonly known: ReadonlyArray<string> } => {
  const found = alternatives(resolved(given)).map((shape): Shape | { readonly known: ReadonlyArray<string> } => {
    const types = typesOf(shape)
    if (types.length === 0) return { schema: {}, defs: {} }
    if (typeof key === "number") {
      const { items, prefixItems } = shape.schema
      return types.includes("array") ? inside(shape, list(prefixItems)[key] ?? items) : { known: [] }
    }
    if (!types.includes("object")) return { known: [] }
    const members = membersOf(shape)
    if (Object.hasOwn(members, key)) return inside(shape, members[key])
    return isClosed(shape) ? { known: Object.keys(members) } : inside(shape, shape.schema["additionalProperties"])
  })
  const shapes = found.filter((one) => "schema" in one)
  return shapes.length === 0 ? { known: found.flatMap((one) => "known" in one ? one.known : []) } : oneOf(shapes)
}

/** A value that has one of these shapes. */
export const oneOf = (shapes: ReadonlyArray<Shape>): Shape => {
  const [first = shapeOf(undefined)] = shapes
  return shapes.length < 2 ? first : { schema: { anyOf: shapes.map(embedded) }, defs: {} }
}

/** A list of values of this shape. */
export const listOf = (element: Shape): Shape => ({ schema: { type: "array", items: embedded(element) }, defs: {} })

/** An object literal in the file. A member that the step does not accept is a mistake. */
export const objectOf = (members: ReadonlyArray<readonly [string, Shape]>): Shape => ({
  schema: {
    type: "object",
    properties: Object.fromEntries(members.map(([name, shape]) => [name, embedded(shape)])),
    required: members.map(([name]) => name),
    additionalProperties: false,
    [WRITTEN]: true
  },
  defs: {}
})

/** The shape of the elements of a list; undefined when the value is not a list. */
export const elementOf = (given: Shape): Shape | undefined => {
  const element = memberOf(given, 0)
  if (!("schema" in element)) return undefined
  return alternatives(resolved(given)).some(isTuple) ? shapeOf(undefined) : element
}

/** The values that a shape lists, as text: the values of an `enum` or a `const`, or of a boolean. */
export const choicesOf = (given: Shape): ReadonlyArray<string> => {
  const listed = alternatives(resolved(given)).flatMap((shape) =>
    valuesOf(shape) ?? (shape.schema["type"] === "boolean" ? [true, false] : [])
  )
  return [...new Set(listed.map((value) => typeof value === "string" ? value : JSON.stringify(value)))]
}

/** The shape of exactly this value. */
export const exactly = (value: Json): Shape => ({ schema: { const: value }, defs: {} })

/**
 * The fields of a form for a handler's input, from its JSON Schema.
 *
 * The form edits the JSON text of the input, which stays the only state. Where a schema has no simple field, such as for a list of objects, the user edits
 * that part as JSON. The platform does not validate inputs; the worker does. So a problem is shown, and does not prevent a run.
 */
import type { JsonSchema } from "@stint/contract/HandlerSchema"

/** How a value is entered. */
export type FieldKind =
  | { readonly _tag: "Text" }
  | { readonly _tag: "Number"; readonly isWhole: boolean }
  | { readonly _tag: "Boolean" }
  /** One of these values, as JSON texts. */
  | { readonly _tag: "Choice"; readonly options: ReadonlyArray<string> }
  /** A list of texts, one per line. */
  | { readonly _tag: "Lines" }
  | { readonly _tag: "Group"; readonly fields: ReadonlyArray<FormField> }
  /** Edited as JSON. */
  | { readonly _tag: "Json" }

/** A field of the form. */
export interface FormField {
  /** The keys that lead to the value. */
  readonly path: ReadonlyArray<string>
  readonly label: string
  readonly description: string | undefined
  readonly isRequired: boolean
  readonly kind: FieldKind
  /** The resolved schema, without `null` and without the texts that stand for numbers that JSON does not have. */
  readonly schema: JsonSchema
}

/** Deeper objects are edited as JSON. A schema may contain itself. */
const MAX_DEPTH = 4

const isObject = (value: unknown): value is JsonSchema => typeof value === "object" && value !== null && !Array.isArray(value)

/** A JSON value. */
type Json = JsonSchema[string]

const isList = (value: unknown): value is ReadonlyArray<Json> => Array.isArray(value)

const listOf = (value: unknown): ReadonlyArray<Json> => isList(value) ? value : []

const stringOf = (value: unknown): string | undefined => typeof value === "string" && value !== "" ? value : undefined

/** Effect's JSON Schema of a number also accepts these texts. */
const isNumberText = ({ enum: values, type }: JsonSchema): boolean => type === "string" && listOf(values).includes("Infinity")

/** The schema that a reference names. References to other documents, and unknown ones, allow anything. */
const targetOf = (reference: unknown, root: JsonSchema): JsonSchema => {
  const name = /^#\/\$defs\/(.+)$/.exec(typeof reference === "string" ? reference : "")?.[1]
  if (name === undefined) return {}
  const key = decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~")
  const target: unknown = isObject(root["$defs"]) ? root["$defs"][key] : undefined
  return isObject(target) ? target : {}
}

/** A schema without references, `allOf`, and alternatives that need no field. */
const resolve = (schema: unknown, root: JsonSchema, depth = 0): JsonSchema => {
  if (!isObject(schema) || depth > 20) return {}
  const { $ref, allOf, anyOf, oneOf, ...own } = schema
  const parts = [...($ref === undefined ? [] : [targetOf($ref, root)]), ...listOf(allOf)]
  const merged: JsonSchema = Object.assign({}, ...parts.map((part) => resolve(part, root, depth + 1)), own)
  const alternatives = [...listOf(anyOf), ...listOf(oneOf)].map((one) => resolve(one, root, depth + 1))
    .filter((one) => one["type"] !== "null" && !isNumberText(one))
  const [only, ...others] = alternatives
  if (only !== undefined && others.length === 0) return { ...only, ...merged }
  const values = alternatives.map((one) => one["const"] === undefined ? listOf(one["enum"]) : [one["const"]])
  if (values.length > 0 && values.every((some) => some.length > 0)) return { ...merged, enum: values.flat() }
  if (alternatives.length > 0) return { ...merged, anyOf: alternatives }
  const types = isList(merged["type"]) ? merged["type"].filter((type) => type !== "null") : [merged["type"]]
  return types.length === 1 && types[0] !== undefined ? { ...merged, type: types[0] } : merged
}

const kindOf = (schema: JsonSchema, path: ReadonlyArray<string>, root: JsonSchema): FieldKind => {
  const values = schema["const"] === undefined ? listOf(schema["enum"]) : [schema["const"]]
  if (values.length > 0) return { _tag: "Choice", options: values.map((value) => JSON.stringify(value)) }
  switch (schema["type"]) {
    case "string":
      return { _tag: "Text" }
    case "number":
      return { _tag: "Number", isWhole: false }
    case "integer":
      return { _tag: "Number", isWhole: true }
    case "boolean":
      return { _tag: "Boolean" }
    case "array":
      return resolve(schema["items"], root)["type"] === "string" ? { _tag: "Lines" } : { _tag: "Json" }
    case "object":
      return isObject(schema["properties"]) && path.length < MAX_DEPTH
        ? { _tag: "Group", fields: fieldsOf(schema, path, root) }
        : { _tag: "Json" }
    default:
      return { _tag: "Json" }
  }
}

const fieldsOf = (schema: JsonSchema, path: ReadonlyArray<string>, root: JsonSchema): ReadonlyArray<FormField> => {
  const required = listOf(schema["required"])
  return Object.entries(isObject(schema["properties"]) ? schema["properties"] : {}).map(([name, one]) => {
    const property = resolve(one, root)
    const here = [...path, name]
    return {
      path: here,
      label: stringOf(property["title"]) ?? name,
      description: stringOf(property["description"]),
      isRequired: required.includes(name),
      kind: kindOf(property, here, root),
      schema: property
    }
  })
}

/** The fields of an input. Undefined if it is not an object with named members. */
export const inputFields = (schema: JsonSchema): ReadonlyArray<FormField> | undefined => {
  const fields = fieldsOf(resolve(schema, schema), [], schema)
  return fields.length === 0 ? undefined : fields
}

/** The value at a path; undefined if there is none. */
export const valueAt = (input: unknown, path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>((found, key) => isObject(found) && Object.hasOwn(found, key) ? found[key] : undefined, input)

/** A copy of the input with a value at a path. Undefined removes the member. */
export const withValue = (input: unknown, [key, ...rest]: ReadonlyArray<string>, value: unknown): unknown => {
  if (key === undefined) return value
  const members = Object.entries(isObject(input) ? input : {})
  const changed = withValue(valueAt(input, [key]), rest, value)
  const isKnown = members.some(([name]) => name === key)
  return Object.fromEntries(
    (isKnown ? members : [...members, [key, changed] as const]).flatMap(([name, before]) => {
      const after = name === key ? changed : before
      return after === undefined ? [] : [[name, after]]
    })
  )
}

/** What a field shows: the text of its value, or an empty one for a value of another type. */
export const fieldText = ({ kind }: FormField, value: unknown): string => {
  switch (kind._tag) {
    case "Text":
      return typeof value === "string" ? value : ""
    case "Number":
      return typeof value === "number" ? String(value) : ""
    case "Lines":
      return listOf(value).filter((line) => typeof line === "string").join("\n")
    default:
      return value === undefined ? "" : JSON.stringify(value)
  }
}

/** The value of a text that was entered into a field. Undefined for an empty one: the input then has no such member. */
export const fieldValue = ({ kind }: FormField, text: string): unknown => {
  if (text === "") return undefined
  switch (kind._tag) {
    case "Text":
      return text
    case "Number":
      return Number(text)
    case "Lines":
      return text.split("\n")
    default:
      return JSON.parse(text)
  }
}

const numberOf = (value: unknown): number | undefined => typeof value === "number" ? value : undefined

const numberProblem = (value: number, schema: JsonSchema, isWhole: boolean): string | undefined => {
  const [least, above] = [numberOf(schema["minimum"]), numberOf(schema["exclusiveMinimum"])]
  const [most, below] = [numberOf(schema["maximum"]), numberOf(schema["exclusiveMaximum"])]
  if (isWhole && !Number.isInteger(value)) return "Enter a whole number."
  if (least !== undefined && value < least) return `Enter ${least} or more.`
  if (above !== undefined && value <= above) return `Enter more than ${above}.`
  if (most !== undefined && value > most) return `Enter ${most} or less.`
  if (below !== undefined && value >= below) return `Enter less than ${below}.`
  return undefined
}

const characters = (count: number) => count === 1 ? "1 character" : `${count} characters`

const textProblem = (value: string, schema: JsonSchema): string | undefined => {
  const [least, most] = [numberOf(schema["minLength"]), numberOf(schema["maxLength"])]
  if (least !== undefined && value.length < least) return `Enter at least ${characters(least)}.`
  if (most !== undefined && value.length > most) return `Enter at most ${characters(most)}.`
  return undefined
}

/** What is wrong with the value of a field, as far as its schema says simply; undefined if nothing is. */
export const fieldProblem = ({ isRequired, kind, schema }: FormField, value: unknown): string | undefined => {
  if (value === undefined) return isRequired && kind._tag !== "Group" ? "Required." : undefined
  if (value === null) return undefined
  switch (kind._tag) {
    case "Text":
      return typeof value === "string" ? textProblem(value, schema) : "The input has another type here than text."
    case "Number":
      return typeof value === "number"
        ? numberProblem(value, schema, kind.isWhole)
        : "The input has another type here than a number."
    case "Boolean":
      return typeof value === "boolean" ? undefined : "The input has another type here than true or false."
    case "Choice":
      return kind.options.includes(JSON.stringify(value)) ? undefined : `The input has none of these values here.`
    case "Lines":
      return Array.isArray(value) ? undefined : "The input has another type here than a list."
    default:
      return undefined
  }
}

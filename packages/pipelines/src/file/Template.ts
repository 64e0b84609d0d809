/**
 * Templates of values in a pipeline file: JSON in which `${split}` stands for the output of the step `split`.
 *
 * ```
 *   "${split}"             the value itself, of any type
 *   "${input.title}"       a member of it; "${split[0]}": an element
 *   "Words of ${input.by}" text with the value in it
 *   "$${split}"            the text "${split}"
 * ```
 */
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type { Results } from "../Definition.ts"
import { exactly, listOf, memberOf, objectOf, oneOf, shapeOf } from "./SchemaFit.ts"
import type { Shape } from "./SchemaFit.ts"

/** A reference: the name of a step, or `input`, and the path within its value. */
interface Reference {
  readonly name: string
  readonly keys: ReadonlyArray<string | number>
}

/** A string in a template: literal parts and references. */
type Part = string | Reference

const SLOT = /(\$?)\$\{([^}]*)\}/g
const REFERENCE = /^([A-Za-z_][A-Za-z0-9_-]*)((?:\.[A-Za-z_][A-Za-z0-9_-]*|\[\d{1,9}\])*)$/
const KEY = /\.([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+)\]/g

/** An invalid string in a template. */
interface Invalid {
  readonly invalid: string
}

const referenceOf = (text: string): Reference | undefined => {
  const [, name, path] = REFERENCE.exec(text.trim()) ?? []
  if (name === undefined || path === undefined) return undefined
  return { name, keys: [...path.matchAll(KEY)].map(([, key, index]) => key ?? Number(index)) }
}

const partsOf = (text: string): ReadonlyArray<Part> | Invalid => {
  const parts: Array<Part> = []
  let end = 0
  for (const match of text.matchAll(SLOT)) {
    const [whole, escape = "", inner = ""] = match
    if (match.index > end) parts.push(text.slice(end, match.index))
    end = match.index + whole.length
    if (escape === "$") {
      parts.push(whole.slice(1))
      continue
    }
    const reference = referenceOf(inner)
    if (reference === undefined) return { invalid: whole }
    parts.push(reference)
  }
  if (end < text.length) parts.push(text.slice(end))
  return parts
}

const isObject = (json: Schema.Json): json is Schema.JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json)

const isReference = (part: Part): part is Reference => typeof part !== "string"

/** The value at a place; undefined when there is none. */
const valueAt = ({ keys, name }: Reference, results: Results): unknown => {
  let found: unknown = Object.hasOwn(results, name) ? results[name] : undefined
  for (const key of keys) {
    if (!Predicate.isObjectOrArray(found) || !Object.hasOwn(found, key)) return undefined
    found = Reflect.get(found, key)
  }
  return found
}

/** A value inside a string: JSON, unless it is itself a string. */
export const textOf = (value: unknown): string =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value)

const fillText = (text: string, results: Results): unknown => {
  const parts = partsOf(text)
  if ("invalid" in parts) return text
  const [first] = parts
  if (parts.length === 1 && first !== undefined && isReference(first)) return valueAt(first, results)
  return parts.map((part) => isReference(part) ? textOf(valueAt(part, results)) : part).join("")
}

/** The value of a template. A member whose value is missing is left out. */
export const fill = (template: Schema.Json, results: Results): unknown => {
  if (typeof template === "string") return fillText(template, results)
  if (Array.isArray(template)) return template.map((one) => fill(one, results) ?? null)
  if (!isObject(template)) return template
  return Object.fromEntries(
    Object.entries(template).flatMap(([key, one]) => {
      const value = fill(one, results)
      return value === undefined ? [] : [[key, value]]
    })
  )
}

/** What is wrong in a template. `path`: relative to the template. */
export interface TemplateMistake {
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}

/** The shape of a template's values, given the shapes of the results by name. Passes mistakes to `report`. */
export const shapeOfTemplate = (
  template: Schema.Json,
  results: ReadonlyMap<string, Shape>,
  report: (mistake: TemplateMistake) => void,
  path: ReadonlyArray<string | number> = []
): Shape => {
  if (Array.isArray(template)) {
    return listOf(oneOf(template.map((one, index) => shapeOfTemplate(one, results, report, [...path, index]))))
  }
  if (isObject(template)) {
    return objectOf(
      Object.entries(template).map(([key, one]) => [key, shapeOfTemplate(one, results, report, [...path, key])])
    )
  }
  if (typeof template !== "string") return exactly(template)
  const parts = partsOf(template)
  if ("invalid" in parts) {
    report({
      path,
      message:
        `"${parts.invalid}" is not a reference. Write \${STEP}, \${STEP.member} or \${STEP[0]}; $\${...} is the text itself.`
    })
    return shapeOf(undefined)
  }
  const shapes = parts.filter(isReference).map((reference) => shapeOfReference(reference, results, path, report))
  const [only] = shapes
  if (only !== undefined && parts.length === 1) return only
  return shapes.length === 0
    ? exactly(parts.filter((part) => typeof part === "string").join(""))
    : { schema: { type: "string" }, defs: {} }
}

const shapeOfReference = (
  { keys, name }: Reference,
  results: ReadonlyMap<string, Shape>,
  path: ReadonlyArray<string | number>,
  report: (mistake: TemplateMistake) => void
): Shape => {
  let shape = results.get(name)
  if (shape === undefined) {
    report({
      path,
      message: `There is no step "${name}" before this one. Here are ${
        [...results.keys()].map((one) => `\${${one}}`).join(", ")
      }.`
    })
    return shapeOf(undefined)
  }
  let at = name
  for (const key of keys) {
    const member = memberOf(shape, key)
    if (!("schema" in member)) {
      const known = member.known.length === 0 ? "it has no members" : `it has ${member.known.join(", ")}`
      report({ path, message: `${at} has no ${typeof key === "number" ? "elements" : `member "${key}"`}; ${known}.` })
      return shapeOf(undefined)
    }
    shape = member
    at = typeof key === "number" ? `${at}[${key}]` : `${at}.${key}`
  }
  return shape
}

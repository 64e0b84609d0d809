/**
 * Converts rules to JSON Schema. Constraints are left out, because they are functions.
 */
import type { JsonSchema } from "effect/JsonSchema"
import type { Keys, Node } from "./RuleTree.ts"

const keysSchema = ({ fields }: Keys): JsonSchema => {
  const required = fields.filter((field) => field.required).map(({ name }) => name)
  return {
    properties: Object.fromEntries(fields.map(({ default: fallback, name, node }) => [
      name,
      { ...jsonSchema(node), ...(fallback === undefined ? {} : { default: structuredClone(fallback.value) }) }
    ])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false
  }
}

/** The JSON Schema of a value, for API documents and forms. */
export const jsonSchema = ({ item, keys, kinds, nullable }: Node): JsonSchema => {
  const types = [...kinds, ...(nullable ? ["null"] : [])]
  return {
    type: types.length === 1 ? types[0] : types,
    ...(item === undefined ? {} : { items: jsonSchema(item) }),
    ...(keys === undefined ? {} : keysSchema(keys))
  }
}

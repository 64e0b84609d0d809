/**
 * Fills in the defaults of a valid input. Values without nested rules are passed on without a copy.
 */
import { type Field, isList, isRecord, type Keys, type Node, ownValue } from "./RuleTree.ts"

const defaultOf = (field: Field): unknown => field.default === undefined ? undefined : structuredClone(field.default.value)

const fillKeys = ({ fields }: Keys, dict: Readonly<Record<PropertyKey, unknown>>): Record<string, unknown> => {
  const filled: Record<string, unknown> = {}
  for (const field of fields) {
    const given = ownValue(dict, field.name)
    const value = given === undefined ? defaultOf(field) : fillDefaults(field.node, given)
    if (value !== undefined) filled[field.name] = value
  }
  return filled
}

/** Returns the value with its defaults. Objects and lists that have rules are copied. */
export const fillDefaults = (node: Node, value: unknown): unknown => {
  const { item, keys } = node
  if (keys !== undefined && isRecord(value)) return fillKeys(keys, value)
  if (item !== undefined && isList(value)) return value.map((element) => fillDefaults(item, element))
  return value
}

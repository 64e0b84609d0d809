/**
 * Fills in the defaults of an input that was found good. What has no rules of its own is taken over as it is, not copied.
 */
import { type Field, isDict, isList, type Keys, type Node, own } from "./RuleTree.ts"

const defaultOf = (field: Field): unknown => field.default === undefined ? undefined : structuredClone(field.default.value)

const fillKeys = ({ fields }: Keys, dict: Readonly<Record<PropertyKey, unknown>>): Record<string, unknown> => {
  const filled: Record<string, unknown> = {}
  for (const field of fields) {
    const given = own(dict, field.name)
    const value = given === undefined ? defaultOf(field) : fill(field.node, given)
    if (value !== undefined) filled[field.name] = value
  }
  return filled
}

/** The value with its defaults. Objects and lists with rules are new ones. */
export const fill = (node: Node, value: unknown): unknown => {
  const { item, keys } = node
  if (keys !== undefined && isDict(value)) return fillKeys(keys, value)
  if (item !== undefined && isList(value)) return value.map((one) => fill(item, one))
  return value
}

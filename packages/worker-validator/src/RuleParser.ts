/**
 * Parses rules. An invalid rule is a programming error, so it throws a TypeError that names the rule, what is wrong, and what to write.
 * The error is thrown when the rules are parsed, not when the first job arrives.
 */
import { didYouMean } from "@stint/worker/Suggestion"
import { previewValue } from "@stint/worker/ValuePreview"
import { check } from "./RuleCheck.ts"
import { fillDefaults } from "./RuleDefaults.ts"
import { type Field, isList, isRecord, type Keys, type Kind, type Node, ownValue } from "./RuleTree.ts"
import { formatProblem } from "./ValidationProblem.ts"

const typeWords: ReadonlyArray<readonly [Kind, ReadonlyArray<unknown>]> = [
  ["string", ["str", "string", String]],
  ["integer", ["int", "integer"]],
  ["number", ["float", "number", Number]],
  ["boolean", ["bool", "boolean", Boolean]],
  ["array", ["list", "array", Array]],
  ["object", ["dict", "object", Object]]
]

/** The words for the type of null. */
const nullWords: ReadonlyArray<unknown> = ["null", "None", null]

const kindOf = (word: unknown): Kind | undefined => typeWords.find(([, all]) => all.includes(word))?.[0]

const typeNames = typeWords.flatMap(([, all]) => all.filter((word) => typeof word === "string"))

const TYPES =
  "The types are str, int, float, bool, list, dict and None, or JSON Schema's string, integer, number, boolean, array, object and null, "
  + "or String, Number, Boolean, Array and Object."

const KEYS_OF_ITEMS = ["type", "nullable", "constraints", "items", "rules"]
const KEYS_OF_RULES = ["type", "required", "default", "nullable", "constraints", "items", "rules"]

const ruleError = (at: string, why: string) => new TypeError(`The rule for "${at}" ${why}`)

const formatWord = (word: unknown): string => typeof word === "function" ? word.name : previewValue(word)

const isConstraint = (value: unknown): value is (value: unknown) => unknown => typeof value === "function"

/** The rules that are being parsed, outermost first: they detect a rule that contains itself. */
type OpenRules = ReadonlySet<unknown>

const readKind = (word: unknown, at: string): Kind => {
  const kind = kindOf(word)
  if (kind !== undefined) return kind
  const suggestion = typeof word === "string" ? didYouMean(word, typeNames) : ""
  throw ruleError(at, `has the unknown type ${formatWord(word)}.${suggestion} ${TYPES}`)
}

/** The types of a rule; empty when null is the only type. */
const readKinds = (type: unknown, at: string): { readonly kinds: ReadonlyArray<Kind>; readonly isNull: boolean } => {
  if (type === undefined) throw ruleError(at, `has no type. ${TYPES}`)
  const words = isList(type) ? type : [type]
  if (words.length === 0) throw ruleError(at, `has an empty list of types, which no value can meet. ${TYPES}`)
  const others = words.filter((word) => !nullWords.includes(word))
  return { kinds: [...new Set(others.map((word) => readKind(word, at)))], isNull: others.length < words.length }
}

const readFlag = (rule: Readonly<Record<PropertyKey, unknown>>, name: string, at: string): boolean | undefined => {
  const flag = ownValue(rule, name)
  if (flag === undefined || typeof flag === "boolean") return flag
  throw ruleError(at, `has ${name}: ${previewValue(flag)}. It must be true or false.`)
}

const asRule = (
  rule: unknown,
  at: string,
  known: ReadonlyArray<string>,
  open: OpenRules
): Readonly<Record<PropertyKey, unknown>> => {
  if (!isRecord(rule)) {
    throw ruleError(at, `is ${formatWord(rule)}. A rule is an object, for example { type: "str", required: true }.`)
  }
  if (open.has(rule)) throw ruleError(at, "contains itself. Remove the inner rules, or check them in a constraint.")
  for (const key of Object.keys(rule)) {
    if (!known.includes(key)) {
      throw ruleError(at, `has an unknown key "${key}".${didYouMean(key, known)} The keys are ${known.join(", ")}.`)
    }
  }
  return rule
}

const readNode = (rule: Readonly<Record<PropertyKey, unknown>>, at: string, open: OpenRules): Node => {
  const { isNull, kinds } = readKinds(ownValue(rule, "type"), at)
  const [constraints, items, rules] = [ownValue(rule, "constraints"), ownValue(rule, "items"), ownValue(rule, "rules")]
  if (constraints !== undefined && !isConstraint(constraints)) {
    throw ruleError(at, `has constraints: ${previewValue(constraints)}. They must be a function of the value.`)
  }
  if (items !== undefined && !kinds.includes("array")) throw ruleError(at, "has items, but its type is not a list.")
  if (rules !== undefined && !kinds.includes("object")) throw ruleError(at, "has rules, but its type is not a dict.")
  const inner = new Set([...open, rule])
  const item = `${at}[]`
  return {
    kinds,
    nullable: isNull || (readFlag(rule, "nullable", at) ?? ownValue(rule, "default") === null),
    constraints,
    item: items === undefined ? undefined : readNode(asRule(items, item, KEYS_OF_ITEMS, inner), item, inner),
    keys: rules === undefined ? undefined : readKeys(rules, at, inner)
  }
}

/** Whether an object has no class, like one from a literal or from JSON.parse. */
const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || (isRecord(prototype) && Object.getPrototypeOf(prototype) === null)
}

/** Whether the value survives a round trip through JSON unchanged. A value that contains itself does not. */
const isJson = (value: unknown, open: OpenRules = new Set()): boolean => {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true
  if (typeof value === "number") return Number.isFinite(value)
  if (open.has(value)) return false
  const inner = new Set([...open, value])
  if (isList(value)) return value.every((item) => isJson(item, inner))
  return isRecord(value) && isPlain(value) && Object.values(value).every((item) => isJson(item, inner))
}

/** Copies a default, so that later changes by the caller have no effect. */
const copyOf = (value: unknown, at: string): unknown => {
  if (!isJson(value)) {
    throw ruleError(
      at,
      "has a default that is not a JSON value. Use strings, finite numbers, booleans, null, lists and plain objects."
    )
  }
  return structuredClone(value)
}

/** Parses a default and fills in its own nested defaults. */
const readDefault = (node: Node, value: unknown, name: string, at: string): Field["default"] => {
  if (value === undefined) return undefined
  const copy = copyOf(value, at)
  const [problem] = check(node, copy).problems
  if (problem === undefined) return { value: fillDefaults(node, copy) }
  throw ruleError(at, `has an invalid default. ${formatProblem({ ...problem, path: [name, ...problem.path] })}`)
}

const readField = (name: string, given: unknown, at: string, open: OpenRules): Field => {
  // Assigning this key to the validated object would set its prototype.
  if (name === "__proto__") throw ruleError(at, "is not allowed. Choose another name for the key.")
  const rule = asRule(given, at, KEYS_OF_RULES, open)
  const [required, fallback] = [readFlag(rule, "required", at), ownValue(rule, "default")]
  if (required === undefined && fallback === undefined) {
    throw ruleError(at, "has neither required nor a default. Write required: true, required: false, or a default.")
  }
  const node = readNode(rule, at, open)
  return { name, node, required: required === true, default: readDefault(node, fallback, name, at) }
}

const readKeys = (rules: unknown, at: string, open: OpenRules): Keys => {
  if (!isRecord(rules)) {
    throw at === ""
      ? new TypeError(`The rules must be an object with a rule for each key of the input, got ${formatWord(rules)}.`)
      : ruleError(at, `has rules: ${formatWord(rules)}. They must be an object with a rule for each key.`)
  }
  if (open.has(rules)) throw ruleError(at, "contains itself. Remove the inner rules, or check them in a constraint.")
  const inner = new Set([...open, rules])
  const fields = Object.entries(rules).map(([name, rule]) => readField(name, rule, at === "" ? name : `${at}.${name}`, inner))
  return { fields, names: new Set(fields.map(({ name }) => name)) }
}

/**
 * Parses the rules of an input (docs/spec/validator.md#rules).
 *
 * @throws TypeError that names the invalid rule
 */
export const parseRules = (rules: unknown): Node => ({
  kinds: ["object"],
  nullable: false,
  constraints: undefined,
  item: undefined,
  keys: readKeys(rules, "", new Set())
})

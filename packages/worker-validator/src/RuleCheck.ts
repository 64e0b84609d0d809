/**
 * Looks at an input along its rules and says all that is wrong, in the order of the rules; what nobody knows comes after.
 *
 * ```
 *   value --> type? --> keys and items? --> constraints? --> good
 *               |             |                  |
 *               +-------------+------------------+--> problems; what comes after in this line is not looked at
 * ```
 */
import { messageOf } from "@stint/worker/Outcome"
import { didYouMean } from "@stint/worker/Suggestion"
import { truncate } from "@stint/worker/ValuePreview"
import { fillDefaults } from "./RuleDefaults.ts"
import { isList, isRecord, type Keys, type Kind, type Node, ownValue } from "./RuleTree.ts"
import { describe, joinWithOr, type ValidationProblem } from "./ValidationProblem.ts"

/** Where the looking stops: nobody mends more than this in one go, and a huge wrong input costs no more than a small one. */
const MAX_PROBLEMS = 20

/** What was found. */
export interface Report {
  readonly problems: ReadonlyArray<ValidationProblem>
  /** There are more than these. */
  readonly more: boolean
}

/** How to look. */
export interface Options {
  /** Keys with a default have to be there, too: the input is one that was validated. Default: false. */
  readonly filled?: boolean
}

const fits: Readonly<Record<Kind, (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string",
  integer: Number.isSafeInteger,
  number: Number.isFinite,
  boolean: (value) => typeof value === "boolean",
  array: isList,
  object: isRecord
}

const articles: Readonly<Record<Kind, string>> = {
  string: "a string",
  integer: "an integer",
  number: "a number",
  boolean: "a boolean",
  array: "an array",
  object: "an object"
}

/** What a value has to be, in words: `a string or null`. */
const expected = ({ kinds, nullable }: Node): string =>
  joinWithOr([...kinds.map((kind) => articles[kind]), ...(nullable ? ["null"] : [])])

const MAX_MESSAGE = 200
/** Longer keys are no slip of the finger, and looking for a neighbour takes long. */
const MAX_SUGGESTED = 60

const suggestionFor = (key: PropertyKey, names: ReadonlyArray<string>): string =>
  typeof key === "string" && key.length <= MAX_SUGGESTED ? didYouMean(key, names).trimStart() : ""

/** What a constraint has against a value; undefined: nothing. */
const constraintError = (
  constraints: (value: unknown) => unknown,
  value: unknown
): Pick<ValidationProblem, "says" | "hint"> | undefined => {
  try {
    const constraintResult = constraints(value)
    if (constraintResult === true) return undefined
    if (constraintResult === false || constraintResult === "") return { says: "does not meet the constraints" }
    if (typeof constraintResult === "string") {
      return { says: `does not meet the constraints (${truncate(constraintResult, MAX_MESSAGE)})` }
    }
    // Nobody waits for it; where it fails, too, nobody shall fall over it.
    if (constraintResult instanceof Promise) constraintResult.catch(() => {})
    const answer = constraintResult instanceof Promise ? "a promise" : describe(constraintResult)
    return {
      says: "could not be checked",
      hint: `Its constraint answered ${answer} where it has to answer true, false or a message.`
    }
  } catch (thrown) {
    return { says: "could not be checked", hint: `Its constraint threw: ${truncate(messageOf(thrown), MAX_MESSAGE)}` }
  }
}

/** All that is wrong with a value, up to a bound. */
export const check = (root: Node, input: unknown, { filled = false }: Options = {}): Report => {
  const problems: Array<ValidationProblem> = []
  const path: Array<PropertyKey> = []
  const isFull = () => problems.length > MAX_PROBLEMS
  const report = (problem: Omit<ValidationProblem, "path">) => problems.push({ path: [...path], ...problem })
  const within = (key: PropertyKey, look: () => void) => {
    path.push(key)
    look()
    path.pop()
  }

  const visitKeys = ({ fields, names }: Keys, dict: Readonly<Record<PropertyKey, unknown>>) => {
    const absent: Array<string> = []
    for (const { default: fallback, name, node, required } of fields) {
      if (isFull()) return
      const value = ownValue(dict, name)
      if (value === undefined) absent.push(name)
      within(name, () => {
        if (value !== undefined) visit(node, value)
        else if (required) report({ says: `is a required input (${expected(node)})` })
        else if (filled && fallback !== undefined) report({ says: `is not filled in (${expected(node)})` })
      })
    }
    const symbols = Object.getOwnPropertySymbols(dict)
    const keys: ReadonlyArray<PropertyKey> = symbols.length === 0 ? Object.keys(dict) : [...Object.keys(dict), ...symbols]
    for (const key of keys) {
      if (isFull()) return
      if (names.has(key) || ownValue(dict, key) === undefined) continue
      const hint = suggestionFor(key, absent)
      within(key, () =>
        report({
          says: "is not a valid input option",
          unexpected: true,
          ...(hint === "" ? {} : { hint })
        }))
    }
  }

  const visit = (node: Node, value: unknown): void => {
    if (value === null && node.nullable) return
    if (!node.kinds.some((kind) => fits[kind](value))) {
      report({
        says: `should be ${expected(node)}, not ${describe(value)}`,
        ...(value == null ? {} : { got: { value } })
      })
      return
    }
    const before = problems.length
    const { constraints, item, keys } = node
    if (keys !== undefined && isRecord(value)) visitKeys(keys, value)
    if (item !== undefined && isList(value)) {
      for (let index = 0; index < value.length && !isFull(); index++) within(index, () => visit(item, value[index]))
    }
    if (constraints === undefined || problems.length > before) return
    // As the handler will get it: an input that is validated twice then meets the same constraint with the same value.
    const objected = constraintError(constraints, fillDefaults(node, value))
    if (objected !== undefined) report({ ...objected, got: { value } })
  }

  visit(root, input)
  return { problems: problems.slice(0, MAX_PROBLEMS), more: isFull() }
}

/**
 * Checks an input against its rules and reports every problem, in the order of the rules. Unknown keys come last.
 *
 * ```
 *   value --> type? --> keys and items? --> constraints? --> valid
 *               |             |                  |
 *               +-------------+------------------+--> problems; the later steps are skipped for this value
 * ```
 */
import { didYouMean } from "@stint/worker/Suggestion"
import { messageOf } from "@stint/worker/ThrownValue"
import { truncate } from "@stint/worker/ValuePreview"
import { fillDefaults } from "./RuleDefaults.ts"
import { isList, isRecord, type Keys, type Kind, type Node, ownValue } from "./RuleTree.ts"
import { describe, joinWithOr, type ValidationProblem } from "./ValidationProblem.ts"

/** The check stops after this number of problems, so that a huge invalid input costs no more than a small one. */
const MAX_PROBLEMS = 20

/** The result of a check. */
export interface Report {
  readonly problems: ReadonlyArray<ValidationProblem>
  /** Whether there are more problems than these. */
  readonly more: boolean
}

/** Options for a check. */
export interface Options {
  /** Whether keys with a default must be present too, as in an input that was validated before. Default: false. */
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

/** The expected type in words: `a string or null`. */
const expected = ({ kinds, nullable }: Node): string =>
  joinWithOr([...kinds.map((kind) => articles[kind]), ...(nullable ? ["null"] : [])])

const MAX_MESSAGE = 200
/** Longer keys get no suggestion: they are unlikely to be typos, and the comparison would be slow. */
const MAX_SUGGESTED = 60

const suggestionFor = (key: PropertyKey, names: ReadonlyArray<string>): string =>
  typeof key === "string" && key.length <= MAX_SUGGESTED ? didYouMean(key, names).trimStart() : ""

/** The problem that a constraint reports for a value, or undefined if the value meets it. */
const constraintError = (
  constraints: (value: unknown) => unknown,
  value: unknown
): Pick<ValidationProblem, "text" | "hint"> | undefined => {
  try {
    const constraintResult = constraints(value)
    if (typeof constraintResult === "string" && constraintResult !== "") {
      return { text: `does not meet the constraints (${truncate(constraintResult, MAX_MESSAGE)})` }
    }
    if (constraintResult instanceof Promise) {
      // A promise is not awaited; its rejection must not become an unhandled rejection.
      constraintResult.catch(() => {})
      return {
        text: "could not be checked",
        hint: "Its constraint returned a promise. It must return true, false or a message."
      }
    }
    // Any truthy value passes, as in the Python SDK: `text.match(/^a/)` is a constraint.
    if (constraintResult) return undefined
    const hint = constraintResult === undefined ? { hint: "Its constraint returned undefined." } : {}
    return { text: "does not meet the constraints", ...hint }
  } catch (thrown) {
    return { text: "could not be checked", hint: `Its constraint threw: ${truncate(messageOf(thrown), MAX_MESSAGE)}` }
  }
}

/** Returns the problems of a value, at most {@link MAX_PROBLEMS}. */
export const check = (root: Node, input: unknown, { filled = false }: Options = {}): Report => {
  const problems: Array<ValidationProblem> = []
  const path: Array<PropertyKey> = []
  const isFull = () => problems.length > MAX_PROBLEMS
  const report = (problem: Omit<ValidationProblem, "path">) => problems.push({ path: [...path], ...problem })
  const visitAt = (key: PropertyKey, visitValue: () => void) => {
    path.push(key)
    visitValue()
    path.pop()
  }

  const visitKeys = ({ fields, names }: Keys, dict: Readonly<Record<PropertyKey, unknown>>) => {
    const absent: Array<string> = []
    for (const { default: fallback, name, node, required } of fields) {
      if (isFull()) return
      const value = ownValue(dict, name)
      if (value === undefined) absent.push(name)
      visitAt(name, () => {
        if (value !== undefined) visit(node, value)
        else if (required) report({ text: `is a required input (${expected(node)})` })
        else if (filled && fallback !== undefined) report({ text: `is missing although it has a default (${expected(node)})` })
      })
    }
    const symbols = Object.getOwnPropertySymbols(dict)
    const keys: ReadonlyArray<PropertyKey> = symbols.length === 0 ? Object.keys(dict) : [...Object.keys(dict), ...symbols]
    for (const key of keys) {
      if (isFull()) return
      if (names.has(key) || ownValue(dict, key) === undefined) continue
      const hint = suggestionFor(key, absent)
      visitAt(key, () =>
        report({
          text: "is not a valid input option",
          unexpected: true,
          ...(hint === "" ? {} : { hint })
        }))
    }
  }

  const visit = (node: Node, value: unknown): void => {
    if (value === null && node.nullable) return
    if (!node.kinds.some((kind) => fits[kind](value))) {
      report({
        text: `should be ${expected(node)}, not ${describe(value)}`,
        ...(value == null ? {} : { got: { value } })
      })
      return
    }
    const before = problems.length
    const { constraints, item, keys } = node
    if (keys !== undefined && isRecord(value)) visitKeys(keys, value)
    if (item !== undefined && isList(value)) {
      for (let index = 0; index < value.length && !isFull(); index++) visitAt(index, () => visit(item, value[index]))
    }
    if (constraints === undefined || problems.length > before) return
    // The constraint gets the value with defaults, as the handler does, so that a second validation passes the same value to it.
    const problem = constraintError(constraints, fillDefaults(node, value))
    if (problem !== undefined) report({ ...problem, got: { value } })
  }

  visit(root, input)
  return { problems: problems.slice(0, MAX_PROBLEMS), more: isFull() }
}

/**
 * Validates a plain value against rules. It depends on neither Effect nor jobs.
 *
 * ```
 *   input --check--> problems? --yes--> { errors }
 *                        |
 *                        no --fill in defaults--> { validated_input }
 * ```
 */
import { check, type Report } from "./RuleCheck.ts"
import { fillDefaults } from "./RuleDefaults.ts"
import { parseRules } from "./RuleParser.ts"
import type { Rules, Validated } from "./Rules.ts"
import { formatProblem, truncationNotice } from "./ValidationProblem.ts"

/** The result for a valid input. */
export interface Valid<R> {
  /** The input with its defaults filled in. */
  readonly validated_input: Validated<R>
  readonly errors?: never
}

/** The result for an invalid input. */
export interface Invalid {
  /** One sentence for each problem, in the order of the rules: at most 20, then one that says that there are more. */
  readonly errors: ReadonlyArray<string>
  readonly validated_input?: never
}

/** The result of a validation. Exactly one of the two keys is present; check `errors`. */
export type Result<R> = Valid<R> | Invalid

/** Parsed rules, for any number of inputs. */
export interface Validator<R> {
  readonly rules: R
  /** Validates an input. It never throws for a JSON value, and does not change it. */
  readonly validate: (input: unknown) => Result<R>
}

const errorsOf = ({ more, problems }: Report): ReadonlyArray<string> => [
  ...problems.map(formatProblem),
  ...(more ? [truncationNotice(problems.length)] : [])
]

/**
 * Parses rules once, for any number of inputs.
 *
 * @throws TypeError that names the invalid rule: an unknown key, an unknown type, an invalid default
 *
 * @example
 * ```ts
 * const size = Validator.make({ width: { type: "int", default: 512 } })
 * size.validate({ width: 64 }) // { validated_input: { width: 64 } }
 * ```
 */
export const make = <const R extends Rules>(rules: R): Validator<R> => {
  const node = parseRules(rules)
  const isValid = (_value: unknown, { problems }: Report): _value is Validated<R> => problems.length === 0
  return {
    rules,
    validate: (input) => {
      const report = check(node, input)
      const filled = report.problems.length === 0 ? fillDefaults(node, input) : undefined
      return isValid(filled, report) ? { validated_input: filled } : { errors: errorsOf(report) }
    }
  }
}

/**
 * Validates one input against rules (docs/spec/validator.md#validating-an-input). It parses the rules on each call; {@link make} parses
 * them once.
 *
 * @throws TypeError that names the invalid rule
 *
 * @example
 * ```ts
 * const result = Validator.validate(job.input, { width: { type: "int", default: 512 } })
 * if (result.errors) return { error: result.errors }
 * result.validated_input.width // number
 * ```
 */
export const validate = <const R extends Rules>(input: unknown, rules: R): Result<R> => make(rules).validate(input)

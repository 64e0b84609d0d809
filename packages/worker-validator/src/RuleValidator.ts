/**
 * Checks an input by rules: a plain function of plain values. It knows no Effect and no job.
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

/** The input was good. */
export interface Valid<R> {
  /** The input with its defaults filled in. */
  readonly validated_input: Validated<R>
  readonly errors?: never
}

/** The input was not good. */
export interface Invalid {
  /** All that is wrong, a sentence each, in the order of the rules; 20 of them, and one that says that there are more. */
  readonly errors: ReadonlyArray<string>
  readonly validated_input?: never
}

/** What became of an input. Exactly one of the two keys is there: look for `errors`. */
export type Result<R> = Valid<R> | Invalid

/** Rules that were read: they can be meant, and need not be read again. */
export interface Validator<R> {
  readonly rules: R
  /** Checks an input. It never throws for an input that is JSON, and leaves it as it is. */
  readonly validate: (input: unknown) => Result<R>
}

const errorsOf = ({ more, problems }: Report): ReadonlyArray<string> => [
  ...problems.map(formatProblem),
  ...(more ? [truncationNotice(problems.length)] : [])
]

/**
 * Reads rules once, for many inputs.
 *
 * @throws TypeError that names the rule which cannot be meant: a misspelt key, an unknown type, a default that does not fit
 *
 * @example
 * ```ts
 * const size = Validator.make({ width: { type: "int", default: 512 } })
 * size.validate({ width: 64 }) // { validated_input: { width: 64 } }
 * ```
 */
export const make = <const R extends Rules>(rules: R): Validator<R> => {
  const node = parseRules(rules)
  const isGood = (_value: unknown, { problems }: Report): _value is Validated<R> => problems.length === 0
  return {
    rules,
    validate: (input) => {
      const report = check(node, input)
      const filled = report.problems.length === 0 ? fillDefaults(node, input) : undefined
      return isGood(filled, report) ? { validated_input: filled } : { errors: errorsOf(report) }
    }
  }
}

/**
 * Checks one input by rules (docs/spec/validator.md#validating-an-input). The rules are read each time; {@link make} reads them once.
 *
 * @throws TypeError that names the rule which cannot be meant
 *
 * @example
 * ```ts
 * const result = Validator.validate(job.input, { width: { type: "int", default: 512 } })
 * if (result.errors) return { error: result.errors }
 * result.validated_input.width // number
 * ```
 */
export const validate = <const R extends Rules>(input: unknown, rules: R): Result<R> => make(rules).validate(input)

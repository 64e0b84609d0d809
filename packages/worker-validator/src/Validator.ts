/**
 * Validates the input of jobs against rules, in one of three places:
 *
 * ```
 *   in a function        Validator.validate(job.input, rules)            { validated_input } | { errors }
 *   around every job     { middleware: [Validator.middleware(rules)] }   the handler runs only with valid input
 *   as a Schema          Handler.make({ input: Validator.toSchema(rules), ... })
 * ```
 *
 * The rules, checks and error messages are the same in all three. A handler that has a Schema for its input needs none of them.
 */
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import * as Outcome from "@stint/worker/Outcome"
import * as Spans from "@stint/worker/Spans"
import * as Effect from "effect/Effect"
import type { JsonObject } from "effect/Schema"
import type { Rules } from "./Rules.ts"
import { make } from "./RuleValidator.ts"

export type * from "./Rules.ts"
export { toSchema } from "./RuleSchema.ts"
export { make, validate } from "./RuleValidator.ts"
export type {
  /** @public */
  Invalid,
  /** @public */
  Result,
  /** @public */
  Valid,
  /** @public */
  Validator
} from "./RuleValidator.ts"

/** A validated input is JSON, because both the input and the defaults are. Undefined: the input is invalid. */
const isInput = (validated: unknown): validated is JsonObject => validated !== undefined

/**
 * Validates every job's input before its handler runs.
 *
 * The handler receives the input with its defaults, as its argument and as `CurrentJob`, and so does the middleware after this one in
 * the list. A job with invalid input fails with an error that lists all problems, and its handler does not run.
 *
 * @throws TypeError, when the middleware is created, that names the invalid rule
 *
 * @example
 * ```ts
 * Worker.launch(Worker.layer(handler, {
 *   middleware: [Validator.middleware({ width: { type: "int", default: 512 } })]
 * }))
 * ```
 */
export const middleware = (rules: Rules): JobMiddleware.JobMiddleware => {
  const validator = make(rules)
  return JobMiddleware.make((next, job) =>
    Effect.flatMap(
      Spans.withSpan("validate")(Effect.sync(() => validator.validate(job.input))),
      ({ errors, validated_input }) =>
        isInput(validated_input)
          ? next({ ...job, input: validated_input })
          : Effect.succeed(Outcome.failed(`The input does not fit. ${errors?.join(" ")}`))
    )
  )
}

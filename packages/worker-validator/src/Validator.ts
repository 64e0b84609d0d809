/**
 * The input of jobs, checked by rules, in three places to choose from:
 *
 * ```
 *   in a function        Validator.validate(job.input, rules)            { validated_input } | { errors }
 *   around every job     { middleware: [Validator.middleware(rules)] }   the handler gets good input, or does not run
 *   as a Schema          Handler.make({ input: Validator.toSchema(rules), ... })
 * ```
 *
 * The rules, the checks and the words are the same in all three. A handler that has a Schema for its input needs none of them.
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
export type { Invalid, Result, Valid, Validator } from "./RuleValidator.ts"

/** The answer to JSON is JSON with defaults, which are JSON, too; or there is none. */
const isInput = (validated: unknown): validated is JsonObject => validated !== undefined

/**
 * Validates every job's input before its handler runs.
 *
 * The handler gets the input with its defaults filled in, as its argument and as `CurrentJob`, and so does the middleware after this
 * one in the list. A job whose input does not fit fails with all that is wrong, and its handler does not run.
 *
 * @throws TypeError, when the middleware is made, that names the rule which cannot be meant
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

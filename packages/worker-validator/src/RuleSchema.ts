/**
 * Rules as a Schema, for what is made of Schemas: handlers, pipelines, documents.
 *
 * ```
 *   JSON --check--> Accepted --fill in defaults--> Validated        decoding
 *   JSON <--------- Accepted <-------------------- Validated        encoding
 * ```
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import { check, type Options, type Report } from "./RuleCheck.ts"
import { fillDefaults } from "./RuleDefaults.ts"
import { jsonSchema } from "./RuleJsonSchema.ts"
import { parseRules } from "./RuleParser.ts"
import type { Accepted, Rules, Validated } from "./Rules.ts"
import type { Node } from "./RuleTree.ts"
import { message, truncationNotice } from "./ValidationProblem.ts"

const issueOf = ({ more, problems }: Report, ast: SchemaAST.AST, input: unknown, options: SchemaAST.ParseOptions) => {
  const all = [
    ...problems.map((problem) => ({ path: problem.path, message: message(problem) })),
    ...(more ? [{ path: [], message: truncationNotice(problems.length) }] : [])
  ]
  const shown = options.errors === "all" ? all : all.slice(0, 1)
  const issues = shown.map(({ message, path }) => new SchemaIssue.Pointer(path, new SchemaIssue.InvalidValue({ message })))
  return Arr.isReadonlyArrayNonEmpty(issues)
    ? new SchemaIssue.Composite(ast, issues, input, options)
    : new SchemaIssue.InvalidType(ast, input, options)
}

/** Values in which a check finds nothing. */
const checked = <A, E = A>(node: Node, how: Options) => {
  const isGood = (_value: unknown, { problems }: Report): _value is A => problems.length === 0
  return Schema.declareConstructor<A, E>()(
    [],
    () => (input, ast, options) => {
      const report = check(node, input, how)
      return isGood(input, report) ? Effect.succeed(input) : Effect.fail(issueOf(report, ast, input, options))
    },
    { expected: "an input that fits", toCodecJson: () => undefined }
  )
}

/**
 * The Schema of inputs that fit these rules: it accepts what {@link validate} accepts, fills in the same defaults, refuses unknown keys
 * whatever the parse options say, and complains in the same words, with the path beside them.
 *
 * Its type is what the handler gets, its encoded side is what callers send. It has a JSON Schema, without the constraints.
 *
 * @throws TypeError that names the rule which cannot be meant
 *
 * @example
 * ```ts
 * const Resize = Handler.make("resize", {
 *   input: Validator.toSchema({ width: { type: "int", default: 512 } }),
 *   output: Schema.Struct({ pixels: Schema.Int }),
 *   run: ({ width }) => Effect.succeed({ pixels: width * width })
 * })
 * ```
 */
export const toSchema = <const R extends Rules>(rules: R): Schema.Codec<Validated<R>, Accepted<R>> => {
  const node = parseRules(rules)
  // The filter lets everything pass; it only carries the JSON Schema.
  const shape = Schema.makeFilter<Accepted<R>>(() => true, { toJsonSchema: () => jsonSchema(node) })
  return checked<Accepted<R>>(node, {}).check(shape).pipe(
    Schema.decodeTo(checked<Validated<R>, unknown>(node, { filled: true }), {
      decode: SchemaGetter.transform((accepted): unknown => fillDefaults(node, accepted)),
      encode: SchemaGetter.passthrough({ strict: false })
    })
  )
}

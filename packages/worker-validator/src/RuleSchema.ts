/**
 * Converts rules to a Schema, for typed handlers, pipelines and API documents.
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
  const reported = options.errors === "all" ? all : all.slice(0, 1)
  const issues = reported.map(({ message, path }) => new SchemaIssue.Pointer(path, new SchemaIssue.InvalidValue({ message })))
  return Arr.isReadonlyArrayNonEmpty(issues)
    ? new SchemaIssue.Composite(ast, issues, input, options)
    : new SchemaIssue.InvalidType(ast, input, options)
}

/** The Schema of values that pass the check. */
const checked = <A, E = A>(node: Node, checkOptions: Options) => {
  const isValid = (_value: unknown, { problems }: Report): _value is A => problems.length === 0
  return Schema.declareConstructor<A, E>()(
    [],
    () => (input, ast, options) => {
      const report = check(node, input, checkOptions)
      return isValid(input, report) ? Effect.succeed(input) : Effect.fail(issueOf(report, ast, input, options))
    },
    { expected: "a valid input", toCodecJson: () => undefined }
  )
}

/**
 * Returns the Schema of inputs that meet these rules. It accepts the same inputs as {@link validate}, fills in the same defaults, and
 * reports the same problems, each with its path. It rejects unknown keys regardless of the parse options.
 *
 * Its type is the input that the handler receives; its encoded type is the input that callers send. Its JSON Schema leaves out the
 * constraints.
 *
 * @throws TypeError that names the invalid rule
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
  // The filter accepts every value; it only attaches the JSON Schema.
  const shape = Schema.makeFilter<Accepted<R>>(() => true, { toJsonSchema: () => jsonSchema(node) })
  return checked<Accepted<R>>(node, {}).check(shape).pipe(
    Schema.decodeTo(checked<Validated<R>, unknown>(node, { filled: true }), {
      decode: SchemaGetter.transform((accepted): unknown => fillDefaults(node, accepted)),
      encode: SchemaGetter.passthrough({ strict: false })
    })
  )
}

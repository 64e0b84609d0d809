/**
 * Reading JSON bodies: one way for all routes, whatever their content type says.
 *
 * Existing workers label raw JSON as a form
 * (docs/spec/worker-protocol.md#headers), and some clients send no content type at all, so the label is ignored and
 * the body is read as JSON. What is not JSON, not the right shape or too large is refused with a body that names the problem.
 */
import { InvalidRequest, PayloadTooLarge, problemMembers, type Unavailable } from "@stint/contract/Problem"
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import { BUDGET_THRESHOLD_BYTES, PayloadMemoryBudget } from "@stint/store/PayloadMemoryBudget"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import * as Schema from "effect/Schema"
import type * as SchemaIssue from "effect/SchemaIssue"
import type * as Scope from "effect/Scope"
import { admit } from "./BodyAdmission.ts"
import { readBodyText } from "./BodyReader.ts"
import { bytesInWords } from "./Limits.ts"
import { excerpt } from "./ProblemJson.ts"

/** The most offending values that an answer names: who has more, has them all from one mistake. */
const MAX_ISSUES = 20

/** `requests[3].policy.ttl` */
const pathInWords = (path: ReadonlyArray<string | number>): string =>
  path.map((key, at) => typeof key === "number" ? `[${key}]` : at === 0 ? key : `.${key}`).join("")

/** What does not fit, each with its path, and all in one sentence. */
export const issuesOf = (issue: SchemaIssue.Issue): {
  readonly errors: ReadonlyArray<{ readonly path: ReadonlyArray<string | number>; readonly message: string }>
  readonly message: string
} => {
  const all = fieldIssues({ issue })
  const errors = all.slice(0, MAX_ISSUES).map(({ message, path }) => ({
    path: path.map((key) => typeof key === "number" ? key : excerpt(key)),
    message: excerpt(message)
  }))
  const sentences = errors.map(({ message, path }) =>
    formatFieldIssue({ message, path: path.length === 0 ? [] : [excerpt(pathInWords(path))] })
  )
  if (all.length > errors.length) sentences.push(`and ${all.length - errors.length} more`)
  return { errors, message: sentences.join("; ") }
}

/** 413 for a body over its limit. `remedy` says what to do instead. */
export const tooLarge = (limit: number, remedy: string): PayloadTooLarge =>
  new PayloadTooLarge({ ...problemMembers(`The body is larger than the limit of ${bytesInWords(limit)}.`, remedy), limit })

/**
 * The text of a request's body, read no further than `limit` bytes. Fails with 413 over it; `remedy` says what to do instead. A large one is
 * held in the payload memory until its request is over; where it does not fit, 503 comes before the body is read.
 */
export const readText = Effect.fnUntraced(function*(
  request: HttpServerRequest.HttpServerRequest,
  limit: number,
  remedy: string
) {
  const declared = Number(request.headers["content-length"] ?? 0)
  if (declared > limit) return yield* tooLarge(limit, remedy)
  if (declared >= BUDGET_THRESHOLD_BYTES) yield* admit(declared)
  const text = yield* Effect.mapError(
    readBodyText(request, limit),
    (reason) =>
      reason === "large"
        ? tooLarge(limit, remedy)
        : new InvalidRequest(problemMembers("The body could not be read to its end.", "Send the request again."))
  )
  // It did not say how long it would be.
  if (declared === 0 && text.length >= BUDGET_THRESHOLD_BYTES) {
    yield* Effect.flatMap(PayloadMemoryBudget, (memory) => memory.reserve(text.length))
  }
  return text
})

/** A JSON body: what it says, and how it was written. */
export interface Body {
  /** The parsed value, to look at. */
  readonly value: unknown
  /** The text, to keep: see JsonMember.ts. */
  readonly text: string
}

/** A text as JSON. Fails with 400 where it is none; `hint` says what to send. */
export const parseJson = (text: string, hint: string): Effect.Effect<Body, InvalidRequest> =>
  Effect.try({
    try: (): Body => ({ value: JSON.parse(text), text }),
    catch: (cause) =>
      new InvalidRequest(problemMembers(
        text.trim() === ""
          ? "The body is empty; it has to be a JSON object."
          : `The body is not JSON: ${excerpt(cause instanceof Error ? cause.message : String(cause))}.`,
        hint
      ))
  })

/**
 * A decoder of JSON values that answers what does not fit with 400 and the path of each offending value. Members that the schema does not
 * know are dropped, or with `unknown: "error"` do not fit.
 */
export const decoder = <S extends Schema.ConstraintDecoder<unknown>>(
  schema: S,
  hint: string,
  { unknown = "ignore" }: { readonly unknown?: "ignore" | "error" } = {}
): (value: unknown) => Effect.Effect<S["Type"], InvalidRequest> => {
  const decode = Schema.decodeUnknownEffect(schema, { errors: "all", onExcessProperty: unknown })
  return (value) =>
    Effect.mapError(decode(value), ({ issue }) => {
      const { errors, message } = issuesOf(issue)
      return new InvalidRequest({ ...problemMembers(message, hint), errors })
    })
}

/** A request's body as JSON. Fails with 413 over `limit` bytes, with 400 where it is no JSON. */
export const readJson = (
  request: HttpServerRequest.HttpServerRequest,
  limit: number,
  remedy: string,
  hint: string
): Effect.Effect<Body, InvalidRequest | PayloadTooLarge | Unavailable, Scope.Scope> =>
  Effect.flatMap(readText(request, limit, remedy), (text) => parseJson(text, hint))

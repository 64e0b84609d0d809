/**
 * Reads JSON bodies, in the same way for all routes and content types.
 *
 * Existing workers send raw JSON with the content type of a form (docs/spec/worker-protocol.md#headers), and some clients send no content
 * type. So the server ignores the content type and reads the body as JSON. A body that is not JSON, has the wrong shape or is too large is
 * rejected with a problem.
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

/** Maximum number of invalid values listed in one error. More than this usually have the same cause. */
const MAX_ISSUES = 20

/** `requests[3].policy.ttl` */
const pathInWords = (path: ReadonlyArray<string | number>): string =>
  path.map((key, at) => typeof key === "number" ? `[${key}]` : at === 0 ? key : `.${key}`).join("")

/** The invalid values, each with its path, and one message for all of them. */
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

/** 413 for a body that exceeds its limit. `remedy` is the hint. */
export const tooLarge = (limit: number, remedy: string): PayloadTooLarge =>
  new PayloadTooLarge({ ...problemMembers(`The body is larger than the limit of ${bytesInWords(limit)}.`, remedy), limit })

/**
 * The text of a request's body, up to `limit` bytes. Fails with 413 over the limit, with `remedy` as the hint. For a large body, payload
 * memory is reserved until the request ends; when the memory is full, the request fails with 503 before the body is read.
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
        : new InvalidRequest(problemMembers("The connection closed before the end of the body.", "Send the request again."))
  )
  // The request had no content-length.
  if (declared === 0 && text.length >= BUDGET_THRESHOLD_BYTES) {
    yield* Effect.flatMap(PayloadMemoryBudget, (memory) => memory.reserve(text.length))
  }
  return text
})

/** A JSON body, both parsed and as text. */
export interface JsonBody {
  /** The parsed value, for validation. */
  readonly value: unknown
  /** The original text, for storage: see JsonMember.ts. */
  readonly text: string
}

/** Parses a text as JSON. Fails with 400 when it is not JSON; `hint` describes the expected body. */
export const parseJson = (text: string, hint: string): Effect.Effect<JsonBody, InvalidRequest> =>
  Effect.try({
    try: (): JsonBody => ({ value: JSON.parse(text), text }),
    catch: (cause) =>
      new InvalidRequest(problemMembers(
        text.trim() === ""
          ? "The body is empty, but a JSON object is required."
          : `The body is not JSON: ${excerpt(cause instanceof Error ? cause.message : String(cause))}.`,
        hint
      ))
  })

/**
 * A decoder of JSON values that fails with 400 and the path of each invalid value. Unknown members are dropped, or rejected with
 * `unknown: "error"`.
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

/** A request's body as JSON. Fails with 413 over `limit` bytes and with 400 when the body is not JSON. */
export const readJson = (
  request: HttpServerRequest.HttpServerRequest,
  limit: number,
  remedy: string,
  hint: string
): Effect.Effect<JsonBody, InvalidRequest | PayloadTooLarge | Unavailable, Scope.Scope> =>
  Effect.flatMap(readText(request, limit, remedy), (text) => parseJson(text, hint))

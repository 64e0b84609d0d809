/**
 * Reading JSON bodies: one way for all routes, whatever their content type says.
 *
 * Existing workers label raw JSON as a form (wire-facts 5.4), and some clients send no content type at all, so the label is ignored and
 * the body is read as JSON. What is not JSON, not the right shape or too large is refused with a body that names the problem.
 */
import { explain, InvalidRequest, PayloadTooLarge } from "@stint/contract/Problem"
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { bytesInWords } from "./Limits.ts"

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

const segmentOf = (segment: PropertyKey | { readonly key: PropertyKey }): string | number => {
  const key = typeof segment === "object" ? segment.key : segment
  return typeof key === "number" ? key : String(key)
}

/** 413 for a body over its limit. `remedy` says what to do instead. */
export const tooLarge = (limit: number, remedy: string): PayloadTooLarge =>
  new PayloadTooLarge({ ...explain(`The body is larger than the limit of ${bytesInWords(limit)}.`, remedy), limit })

/** The text of a request's body, read no further than `limit` bytes. */
export const readText = Effect.fnUntraced(function*(
  request: HttpServerRequest.HttpServerRequest,
  limit: number,
  remedy: string
) {
  if (Number(request.headers["content-length"] ?? 0) > limit) return yield* tooLarge(limit, remedy)
  return yield* request.text.pipe(
    Effect.provideService(HttpServerRequest.MaxBodySize, ByteSize.bytes(limit)),
    Effect.mapError((error) =>
      String(error.reason.cause).includes("maxBytes exceeded")
        ? tooLarge(limit, remedy)
        : new InvalidRequest(explain("The body could not be read to its end.", "Send the request again."))
    )
  )
})

const parse = (text: string): Effect.Effect<unknown, InvalidRequest> =>
  Effect.try({
    try: (): unknown => JSON.parse(text),
    catch: (cause) =>
      new InvalidRequest(explain(
        text.trim() === ""
          ? "The body is empty; it has to be a JSON object."
          : `The body is not JSON: ${cause instanceof Error ? cause.message : String(cause)}.`,
        "Send a JSON object, for example {\"input\": {\"name\": \"Ada\"}}, with every string and key in double quotes."
      ))
  })

/** A decoder of JSON values that answers what does not fit with 400 and the path of each offending value. */
export const decoder = <S extends Schema.ConstraintDecoder<unknown>>(
  schema: S,
  hint: string
): (value: unknown) => Effect.Effect<S["Type"], InvalidRequest> => {
  const decode = Schema.decodeUnknownEffect(schema, { errors: "all" })
  return (value) =>
    Effect.mapError(decode(value), (error) => {
      const errors = formatIssues(error.issue).issues.map((issue) => ({
        path: (issue.path ?? []).map(segmentOf),
        message: issue.message
      }))
      const where = errors.map(({ message, path }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`))
      return new InvalidRequest({ ...explain(where.join("; "), hint), errors })
    })
}

/** The JSON value of a request's body. */
export const readJson = (request: HttpServerRequest.HttpServerRequest, limit: number, remedy: string) =>
  Effect.flatMap(readText(request, limit, remedy), parse)

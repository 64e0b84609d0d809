/**
 * Adds documentation for an operation to the OpenAPI document: texts, examples, and the parameters and headers that the HttpApi does not
 * declare.
 */
import { OpenApi } from "effect/http-api"

/** A parameter that the HttpApi does not declare, because the server reads it from a header or from the raw URL. Path parameters are required. */
export interface ExtraParameter {
  readonly name: string
  readonly in: "header" | "query" | "path"
  readonly description: string
  readonly schema: { readonly type: "string" | "integer"; readonly minimum?: number; readonly maxLength?: number }
  readonly example?: unknown
}

/** The header `Idempotency-Key`, for operations that create a job. */
export const idempotencyKey: ExtraParameter = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "Submissions with the same key and the same body create one job, for as long as the job exists. The same key with a different body " +
    "returns 409. 1 to 255 printable ASCII characters.",
  schema: { type: "string", maxLength: 255 },
  example: "order-4711"
}

/** The documentation of an operation. */
export interface OperationDocs {
  /** A short phrase without a full stop. */
  readonly summary: string
  readonly description: string
  readonly parameters?: ReadonlyArray<ExtraParameter>
  /** An example of the request body. Request forms are prefilled with it, so it must have no effect outside the platform. */
  readonly request?: unknown
  /** More examples of the request body, by name. */
  readonly moreRequests?: Readonly<Record<string, unknown>>
  /** Whether the request body is optional. */
  readonly bodyOptional?: boolean
  /** Examples of success responses, by status. */
  readonly responses?: Readonly<Record<number, unknown>>
  /** Descriptions of error responses, by status. Set these when handlers can return errors too. */
  readonly errors?: Readonly<Record<number, string>>
  /** Descriptions of the headers of every success response. */
  readonly headers?: Readonly<Record<string, string>>
  /** Whether the operation is exempt from the rate limit of its group. */
  readonly unlimited?: boolean
}

/** A response header. */
interface ResponseHeader {
  readonly description: string
  readonly required: boolean
  readonly schema: { readonly type: "string" | "integer" }
  readonly example?: string | number
}

const limitHeaders: Readonly<Record<string, ResponseHeader>> = {
  RateLimit: {
    description:
      "The remaining quota of each limit that applies to the call: `r` calls are left, and the quota is full again after `t` seconds.",
    required: false,
    schema: { type: "string" },
    example: "\"run\";r=997;t=1, \"run-open\";r=199"
  },
  "RateLimit-Policy": {
    description: "The limits that apply to the call, if any: `q` calls per `w` seconds, or `q` open calls.",
    required: false,
    schema: { type: "string" },
    example: "\"run\";q=1000;w=10, \"run-open\";q=200;qu=\"concurrent-requests\""
  }
}

/** The headers of responses with this status. `required`: whether the server, not a handler, produces every such response. */
const headersOf = (status: string, isLimited: boolean, required: boolean): Readonly<Record<string, ResponseHeader>> => {
  if (status === "401") {
    return {
      "WWW-Authenticate": {
        description: "How to authenticate.",
        required,
        schema: { type: "string" },
        example: "Bearer realm=\"stint\""
      }
    }
  }
  if (status === "429") {
    return {
      "Retry-After": {
        description: "When to retry, in seconds.",
        required,
        schema: { type: "integer" },
        example: 3
      },
      // A full queue also returns 429, but not because of a rate limit.
      ...limitHeaders
    }
  }
  // Requests without a valid key do not count towards the rate limit.
  return isLimited && status !== "403" ? limitHeaders : {}
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const recordAt = (value: unknown, key: string): Record<string, unknown> => {
  const found = isRecord(value) ? value[key] : undefined
  return isRecord(found) ? found : {}
}

/**
 * Adds examples to each JSON media type of a body. Tools with a request form read the plural `examples`, and start with the one named `default`.
 */
const withExamples = (content: Record<string, unknown>, values: Record<string, unknown>) => {
  const examples = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }]))
  return Object.fromEntries(
    Object.entries(content).map(([type, media]) => [
      type,
      type.includes("json") && isRecord(media) ? { ...media, examples } : media
    ])
  )
}

const transformOf = (
  { bodyOptional, errors = {}, headers = {}, moreRequests, parameters = [], request, responses: examples = {}, unlimited }:
    OperationDocs
) =>
(
  operation: Record<string, unknown>
): Record<string, unknown> => {
  const declared = Array.isArray(operation["parameters"]) ? operation["parameters"] : []
  const body = operation["requestBody"]
  const declaredResponses = recordAt(operation, "responses")
  const isLimited = unlimited !== true && "429" in declaredResponses
  const responses = Object.fromEntries(
    Object.entries(declaredResponses).flatMap(([status, response]): ReadonlyArray<readonly [string, unknown]> => {
      if (unlimited === true && status === "429") return []
      if (!isRecord(response)) return [[status, response]]
      const isSuccess = status.startsWith("2")
      const description = isSuccess ? undefined : errors[Number(status)]
      const example = isSuccess ? examples[Number(status)] : undefined
      const own = Object.entries(isSuccess ? headers : {}).map(([name, description]) =>
        [name, { description, required: true, schema: { type: "string" } }] as const
      )
      const all = { ...Object.fromEntries(own), ...headersOf(status, isLimited, Object.keys(errors).length === 0) }
      return [[status, {
        ...response,
        ...(description === undefined ? {} : { description }),
        ...(example === undefined ? {} : { content: withExamples(recordAt(response, "content"), { default: example }) }),
        ...(Object.keys(all).length === 0 ? {} : { headers: all })
      }]]
    })
  )
  return {
    ...operation,
    parameters: [...declared, ...parameters.map((parameter) => ({ ...parameter, required: parameter.in === "path" }))],
    responses,
    ...(isRecord(body)
      ? {
        requestBody: {
          ...body,
          required: bodyOptional !== true,
          ...(request === undefined
            ? {}
            : { content: withExamples(recordAt(body, "content"), { default: request, ...moreRequests }) })
        }
      }
      : {})
  }
}

/** The annotations of an operation, for `annotateMerge`. */
export const operationDocs = (docs: OperationDocs) =>
  OpenApi.annotations({ summary: docs.summary, description: docs.description, transform: transformOf(docs) })

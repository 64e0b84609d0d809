/**
 * What the OpenAPI document says of an operation besides its shapes.
 */
import { OpenApi } from "effect/http-api"

/** A parameter that the operation reads although its declaration does not: from a header, or from a raw address. One of a path is required. */
export interface ExtraParameter {
  readonly name: string
  readonly in: "header" | "query" | "path"
  readonly description: string
  readonly schema: { readonly type: "string" | "integer"; readonly minimum?: number; readonly maxLength?: number }
  readonly example?: unknown
}

/** The header of the same name, where an operation makes a job. */
export const idempotencyKey: ExtraParameter = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "While the job is kept, the same key with the same body is the same job; with another body it is refused with 409. " +
    "1 to 255 printable ASCII characters.",
  schema: { type: "string", maxLength: 255 },
  example: "order-4711"
}

/** What to say of an operation. */
export interface OperationDocs {
  /** A few words, without a full stop. */
  readonly summary: string
  readonly description: string
  readonly parameters?: ReadonlyArray<ExtraParameter>
  /** A body that is sent like this. */
  readonly request?: unknown
  /** The operation works without a body as well. */
  readonly bodyOptional?: boolean
  /** A good answer, by status. */
  readonly answers?: Readonly<Record<number, unknown>>
  /** What errors are about, by status, where their schemas do not say it: handlers may answer so as well. */
  readonly errors?: Readonly<Record<number, string>>
  /** Headers of every good answer, with what they say. */
  readonly headers?: Readonly<Record<string, string>>
  /** The operation is never rate-limited, although the others of its group are. */
  readonly unlimited?: boolean
}

/** A header of an answer. */
interface AnswerHeader {
  readonly description: string
  readonly required: boolean
  readonly schema: { readonly type: "string" | "integer" }
  readonly example?: string | number
}

const limitHeaders: Readonly<Record<string, AnswerHeader>> = {
  RateLimit: {
    description: "What is left of each limit that holds for the call: `r` calls now, all of them again in `t` seconds.",
    required: false,
    schema: { type: "string" },
    example: "\"run\";r=997;t=1, \"run-open\";r=199"
  },
  "RateLimit-Policy": {
    description: "The limits that hold for the call, where there are any: `q` calls in `w` seconds, or `q` calls open at once.",
    required: false,
    schema: { type: "string" },
    example: "\"run\";q=1000;w=10, \"run-open\";q=200;qu=\"concurrent-requests\""
  }
}

/** Headers that answers of a status have. `required`: none of them comes from a handler, which knows nothing of these. */
const headersOf = (status: string, isLimited: boolean, required: boolean): Readonly<Record<string, AnswerHeader>> => {
  if (status === "401") {
    return {
      "WWW-Authenticate": {
        description: "How to come back with a key.",
        required,
        schema: { type: "string" },
        example: "Bearer realm=\"stint\""
      }
    }
  }
  if (status === "429") {
    const all = Object.entries(limitHeaders).map(([name, header]) => [name, { ...header, required }] as const)
    return {
      "Retry-After": {
        description: "When to come again, in seconds.",
        required,
        schema: { type: "integer" },
        example: 3
      },
      ...Object.fromEntries(all)
    }
  }
  // Who has no key, or a wrong one, is not counted.
  return isLimited && status !== "403" ? limitHeaders : {}
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const recordAt = (value: unknown, key: string): Record<string, unknown> => {
  const found = isRecord(value) ? value[key] : undefined
  return isRecord(found) ? found : {}
}

/** The content of a body with an example for each JSON type in it. */
const withExample = (content: Record<string, unknown>, example: unknown) =>
  Object.fromEntries(
    Object.entries(content).map(([type, media]) => [
      type,
      type.includes("json") && isRecord(media) ? { ...media, example } : media
    ])
  )

const transformOf = (
  { answers = {}, bodyOptional, errors = {}, headers = {}, parameters = [], request, unlimited }: OperationDocs
) =>
(
  operation: Record<string, unknown>
): Record<string, unknown> => {
  const declared = Array.isArray(operation["parameters"]) ? operation["parameters"] : []
  const body = operation["requestBody"]
  const described = recordAt(operation, "responses")
  const isLimited = unlimited !== true && "429" in described
  const responses = Object.fromEntries(
    Object.entries(described).flatMap(([status, response]): ReadonlyArray<readonly [string, unknown]> => {
      if (unlimited === true && status === "429") return []
      if (!isRecord(response)) return [[status, response]]
      const isGood = status.startsWith("2")
      const description = isGood ? undefined : errors[Number(status)]
      const example = isGood ? answers[Number(status)] : undefined
      const own = Object.entries(isGood ? headers : {}).map(([name, description]) =>
        [name, { description, required: true, schema: { type: "string" } }] as const
      )
      const all = { ...Object.fromEntries(own), ...headersOf(status, isLimited, Object.keys(errors).length === 0) }
      return [[status, {
        ...response,
        ...(description === undefined ? {} : { description }),
        ...(example === undefined ? {} : { content: withExample(recordAt(response, "content"), example) }),
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
          ...(request === undefined ? {} : { content: withExample(recordAt(body, "content"), request) })
        }
      }
      : {})
  }
}

/** The words of an operation, to be merged into its annotations. */
export const operationDocs = (words: OperationDocs) =>
  OpenApi.annotations({ summary: words.summary, description: words.description, transform: transformOf(words) })

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
export interface Wording {
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
  /** What errors are about, by status, where their schemas do not say it. */
  readonly errors?: Readonly<Record<number, string>>
  /** Headers of every good answer, with what they say. */
  readonly headers?: Readonly<Record<string, string>>
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

const transformOf = ({ answers = {}, bodyOptional, errors = {}, headers, parameters = [], request }: Wording) =>
(
  operation: Record<string, unknown>
): Record<string, unknown> => {
  const declared = Array.isArray(operation["parameters"]) ? operation["parameters"] : []
  const body = operation["requestBody"]
  const responses = Object.fromEntries(
    Object.entries(recordAt(operation, "responses")).map(([status, response]) => {
      if (!isRecord(response)) return [status, response]
      if (!status.startsWith("2")) {
        const description = errors[Number(status)]
        return [status, description === undefined ? response : { ...response, description }]
      }
      const example = answers[Number(status)]
      return [status, {
        ...response,
        ...(example === undefined ? {} : { content: withExample(recordAt(response, "content"), example) }),
        ...(headers === undefined ? {} : {
          headers: Object.fromEntries(
            Object.entries(headers).map(([name, description]) => [name, { description, schema: { type: "string" } }])
          )
        })
      }]
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
export const wording = (words: Wording) =>
  OpenApi.annotations({ summary: words.summary, description: words.description, transform: transformOf(words) })

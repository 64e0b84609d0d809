/**
 * What the OpenAPI document says of an operation besides its shapes.
 */
import { OpenApi } from "effect/http-api"

/** A parameter that the operation reads although its declaration does not: from a header, or from a raw address. */
export interface ExtraParameter {
  readonly name: string
  readonly in: "header" | "query"
  readonly description: string
  readonly schema: { readonly type: "string" | "integer"; readonly minimum?: number; readonly maxLength?: number }
  readonly example?: unknown
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

const transformOf = ({ answers = {}, bodyOptional, headers, parameters = [], request }: Wording) =>
(
  operation: Record<string, unknown>
): Record<string, unknown> => {
  const declared = Array.isArray(operation["parameters"]) ? operation["parameters"] : []
  const body = operation["requestBody"]
  const responses = Object.fromEntries(
    Object.entries(recordAt(operation, "responses")).map(([status, response]) => {
      if (!isRecord(response) || !status.startsWith("2")) return [status, response]
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
    parameters: [...declared, ...parameters.map((parameter) => ({ ...parameter, required: false }))],
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

/**
 * Compares every response that tests get through `fetch` with the OpenAPI document: status, content type, body and headers.
 */
import { Api } from "@stint/contract/Api"
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import { OpenApi } from "effect/http-api"

interface Header {
  readonly required?: boolean
}

interface Response {
  readonly content?: Readonly<Record<string, { readonly schema: object }>>
  readonly headers?: Readonly<Record<string, Header>>
}

interface Media {
  readonly schema: object
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}

interface Operation {
  readonly parameters?: ReadonlyArray<{ readonly name: string; readonly in: string }>
  readonly requestBody?: { readonly content?: Readonly<Record<string, Media>> }
  readonly responses: Readonly<Record<string, Response>>
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, object>> }
}

/** The document as its readers receive it. */
export const document: Document = JSON.parse(JSON.stringify(OpenApi.fromApi(Api)))

/** One operation of the document. */
export interface Described {
  /** `GET /v2/{endpoint}/health`. */
  readonly name: string
  readonly method: string
  /** `/v2/{endpoint}/health`. */
  readonly template: string
  readonly path: RegExp
  readonly operation: Operation
}

/** All operations. */
export const OPERATIONS: ReadonlyArray<Described> = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    method: method.toUpperCase(),
    template: path,
    path: new RegExp(`^${path.replace("{route}", ".+").replaceAll(/\{\w+\}/g, "[^/]+")}$`),
    operation
  }))
)

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export class DescribedAnswers {
  /** Mismatches between responses and the document, without duplicates. */
  readonly wrong = new Set<string>()
  /** `GET /v2/{endpoint}/health 200`, for every response seen. */
  readonly seen = new Set<string>()
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true })
  readonly #validators = new Map<object, ValidateFunction>()
  readonly #reading = new Set<Promise<void>>()

  constructor() {
    this.#ajv.addSchema({ $id: "document", ...document })
  }

  /** Pairs of operation and status that are in the document but that no test received. */
  get unseen(): ReadonlyArray<string> {
    return OPERATIONS.flatMap(({ name, operation, template }) =>
      Object.keys(operation.responses).filter((status) =>
        // For requests that are forwarded to the handler, all methods share one description.
        !(template.endsWith("/{route}")
          ? OPERATIONS.some((one) => one.template === template && this.seen.has(`${one.name} ${status}`))
          : this.seen.has(`${name} ${status}`))
      ).map((status) => `${name} ${status}`)
    )
  }

  /** Watches `fetch` until the returned effect runs. */
  watch(): () => void {
    const { fetch } = globalThis
    globalThis.fetch = async (input, init) => {
      const response = await fetch(input, init)
      const url = new URL(input instanceof Request ? input.url : String(input))
      const method = init?.method ?? (input instanceof Request ? input.method : "GET")
      const operation = OPERATIONS.find((one) => one.method === method && one.path.test(url.pathname))
      if (operation !== undefined) {
        const reading = this.#check(operation, response.clone()).catch(() => {
          // The test disconnected.
        }).finally(() => this.#reading.delete(reading))
        this.#reading.add(reading)
      }
      return response
    }
    return () => {
      globalThis.fetch = fetch
    }
  }

  /** Completes when all responses so far have been checked. */
  async settled(): Promise<void> {
    await Promise.all(this.#reading)
  }

  async #check({ name, operation }: Described, response: globalThis.Response): Promise<void> {
    const what = `${name} ${response.status}`
    const described = operation.responses[response.status]
    if (described === undefined) {
      await response.body?.cancel()
      this.wrong.add(`${what}: this status is not described: ${response.url}`)
      return
    }
    this.seen.add(what)
    for (const [header, { required }] of Object.entries(described.headers ?? {})) {
      if (required === true && !response.headers.has(header)) this.wrong.add(`${what}: no header ${header}`)
    }
    const type = response.headers.get("content-type")?.split(";")[0]
    const types = Object.keys(described.content ?? {})
    if ((type === "text/event-stream" || type === "application/x-tar") && types.includes(type)) {
      await response.body?.cancel()
      return
    }
    const text = await response.text()
    if (text === "") {
      if (types.length > 0) this.wrong.add(`${what}: an empty body, where ${types.join(" or ")} is described`)
      return
    }
    const media = described.content?.[type ?? ""]
    if (media === undefined) {
      this.wrong.add(`${what}: a body of type ${type}, where ${types.length === 0 ? "none" : types.join(" or ")} is described`)
      return
    }
    const fits = this.#validator(media.schema)
    if (!fits(parsed(text))) this.wrong.add(`${what}: ${this.#ajv.errorsText(fits.errors)} in ${text.slice(0, 300)}`)
  }

  #validator(schema: object): ValidateFunction {
    const known = this.#validators.get(schema)
    if (known !== undefined) return known
    const inDocument: object = JSON.parse(JSON.stringify(schema).replaceAll("\"#/components/", "\"document#/components/"))
    const made = this.#ajv.compile(inDocument)
    this.#validators.set(schema, made)
    return made
  }
}

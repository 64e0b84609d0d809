import { expect, layer } from "@effect/vitest"
import { Api } from "@stint/contract/Api"
import * as Effect from "effect/Effect"
import { HttpApi } from "effect/http-api"
import { layer as layerServer, ServerTest } from "../src/testing/ServerTest.ts"

interface Operation {
  readonly operationId: string
  readonly tags: ReadonlyArray<string>
  readonly security?: ReadonlyArray<Record<string, unknown>>
  readonly parameters: ReadonlyArray<{ readonly name: string; readonly in: string; readonly required: boolean }>
  readonly requestBody?: unknown
  readonly responses: Record<
    string,
    { readonly description: string; readonly content?: Record<string, { readonly schema: unknown }> }
  >
}

interface Document {
  readonly openapi: string
  readonly info: { readonly title: string; readonly version: string }
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: { readonly schemas: Record<string, unknown>; readonly securitySchemes: Record<string, unknown> }
}

const read = Effect.gen(function*() {
  const server = yield* ServerTest
  const answer = yield* server.call("/openapi.json", { authorization: null })
  expect(answer.status).toBe(200)
  expect(answer.headers.get("content-type")).toMatch(/^application\/json/)
  return answer.json as Document
})

const operationsOf = (document: Document) =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation }))
  )

/** Every `$ref` in a document. */
const refs = (value: unknown): ReadonlyArray<string> => {
  if (typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([key, one]) => key === "$ref" && typeof one === "string" ? [one] : refs(one))
}

layer(layerServer(), { excludeTestServices: true })("/openapi.json", (it) => {
  it.effect("is open without a key: it describes the platform and holds nothing of its data", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const document = yield* read
      expect(document).toMatchObject({ openapi: expect.stringMatching(/^3\.1\./), info: { title: "Stint", version: "2" } })
      expect(JSON.stringify(document)).not.toContain(endpoint.id)
    }))

  it.effect("holds every operation of the contract, and no other", () =>
    Effect.gen(function*() {
      const declared: Array<string> = []
      HttpApi.reflect(Api, {
        onGroup: () => {},
        onEndpoint: ({ endpoint }) => {
          declared.push(`${endpoint.method} ${endpoint.path.replaceAll(/:(\w+)/g, "{$1}")}`)
        }
      })
      const operations = operationsOf(yield* read)
      expect(operations.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual(declared.toSorted())
      expect(declared.length).toBeGreaterThan(30)
      const ids = operations.map(({ operation }) => operation.operationId)
      expect(new Set(ids).size).toBe(ids.length)
    }))

  it.effect("is whole: references lead somewhere, parameters are those of the path, every operation asks for a key", () =>
    Effect.gen(function*() {
      const document = yield* read
      for (const ref of refs(document)) {
        const found = ref.replace("#/", "").split("/").reduce<unknown>(
          (at, key) => (at as Record<string, unknown> | undefined)?.[key.replaceAll("~1", "/").replaceAll("~0", "~")],
          document
        )
        expect(found, ref).toBeDefined()
      }
      expect(Object.keys(document.components.securitySchemes).length).toBeGreaterThan(0)
      for (const { method, operation, path } of operationsOf(document)) {
        const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "")
        const declared = operation.parameters.filter((parameter) => parameter.in === "path")
        expect(declared.map(({ name }) => name).toSorted(), path).toEqual(named.toSorted())
        expect(declared.every(({ required }) => required)).toBe(true)
        expect(operation.security?.length, path).toBeGreaterThan(0)
        expect(Object.keys(operation.responses).some((status) => status.startsWith("2")), path).toBe(true)
        const hasBody = ["run", "runsync", "/endpoints"].some((end) => path.endsWith(end)) || method === "PUT"
        if (method === "POST" && hasBody) expect(operation.requestBody, path).toBeDefined()
      }
    }))

  it.effect("describes the errors: each with its status, as a problem that says what is wrong and what to do", () =>
    Effect.gen(function*() {
      const document = yield* read
      const expected: Record<string, ReadonlyArray<string>> = {
        "POST /v2/{endpoint}/run": ["200", "400", "401", "403", "404", "409", "413", "429", "503"],
        "POST /v2/{endpoint}/runsync": ["200", "400", "401", "403", "404", "409", "413", "429", "503"],
        "GET /v2/{endpoint}/status/{id}": ["200", "400", "401", "403", "404", "429", "503"],
        "POST /v2/{endpoint}/retry/{id}": ["200", "400", "401", "403", "404", "409", "429", "503"],
        "GET /v2/{endpoint}/job-take/{worker}": ["200", "204", "400", "401", "403", "404", "503"],
        "POST /v2/{endpoint}/job-done/{worker}/{id}": ["200", "400", "401", "403", "404", "409", "413", "503"],
        "POST /api/v1/endpoints": ["201", "400", "401", "403", "409", "413", "503"],
        "DELETE /api/v1/endpoints/{endpoint}": ["204", "401", "403", "404", "409", "503"],
        "POST /api/v1/keys": ["201", "400", "401", "403", "404", "413", "503"],
        "PATCH /api/v1/keys/{key}": ["200", "400", "401", "403", "404", "409", "413", "503"]
      }
      const operations = operationsOf(document)
      for (const [operation, statuses] of Object.entries(expected)) {
        const found = operations.find(({ method, path }) => `${method} ${path}` === operation)
        expect(Object.keys(found?.operation.responses ?? {}).toSorted(), operation).toEqual(statuses)
      }
      for (const { operation, path } of operations) {
        for (const [status, response] of Object.entries(operation.responses)) {
          expect(response.description, `${path} ${status}`).not.toBe("")
          if (Number(status) < 400) continue
          const schema = response.content?.["application/problem+json"]?.schema
          expect(schema, `${path} ${status}`).toBeDefined()
          const text = JSON.stringify([
            schema,
            ...refs(schema).map((ref) => document.components.schemas[ref.split("/").at(-1) ?? ""])
          ])
          for (const member of ["\"error\"", "\"hint\"", "\"detail\"", "/problems/"]) {
            expect(text, `${path} ${status}`).toContain(member)
          }
        }
      }
    }))
})

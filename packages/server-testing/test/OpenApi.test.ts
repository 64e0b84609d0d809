import { expect, layer } from "@effect/vitest"
import { Api } from "@stint/contract/Api"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { HttpApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import { layer as layerServer, ServerTest } from "../src/ServerTest.ts"

interface Media {
  readonly schema: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}

interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly tags: ReadonlyArray<string>
  readonly security?: ReadonlyArray<Record<string, unknown>>
  readonly parameters: ReadonlyArray<{
    readonly name: string
    readonly in: string
    readonly required: boolean
    readonly description?: string
    readonly schema: { readonly description?: string }
  }>
  readonly requestBody?: { readonly required: boolean; readonly content: Record<string, Media> }
  readonly responses: Record<
    string,
    { readonly description: string; readonly headers?: unknown; readonly content?: Record<string, Media> }
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

/** A schema of the document, which validates values as readers of the document would and rejects unknown members. */
const checker = (document: Document, schema: unknown) => {
  const inDefs = (value: unknown) => JSON.parse(JSON.stringify(value).replaceAll("#/components/schemas/", "#/$defs/"))
  const imported = SchemaRepresentation.fromJsonSchemaDocument({
    dialect: "draft-2020-12",
    schema: inDefs(schema),
    definitions: inDefs(document.components.schemas)
  }, { patterns: "ignore" })
  const decode = Schema.decodeUnknownExit(imported as Schema.Codec<unknown>, { onExcessProperty: "error" })
  return (value: unknown): string => {
    const exit = decode(value)
    return Exit.isSuccess(exit) ? "fits" : String(exit.cause)
  }
}

/** Every `$ref` in a document. */
const refs = (value: unknown): ReadonlyArray<string> => {
  if (typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([key, one]) => key === "$ref" && typeof one === "string" ? [one] : refs(one))
}

layer(layerServer(), { excludeTestServices: true })("/openapi.json", (it) => {
  it.effect("requires no key, because it describes the platform but contains none of its data", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const document = yield* read
      expect(document).toMatchObject({ openapi: expect.stringMatching(/^3\.1\./), info: { title: "Stint", version: "2" } })
      expect(JSON.stringify(document)).not.toContain(endpoint.id)
    }))

  it.effect("contains exactly the operations of the contract", () =>
    Effect.gen(function*() {
      const declared: Array<string> = []
      HttpApi.reflect(Api, {
        onGroup: () => {},
        onEndpoint: ({ endpoint }) => {
          declared.push(`${endpoint.method} ${endpoint.path.replaceAll(/:(\w+)/g, "{$1}").replace("*", "{route}")}`)
        }
      })
      const operations = operationsOf(yield* read)
      expect(operations.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual(declared.toSorted())
      expect(declared.length).toBeGreaterThan(30)
      const ids = operations.map(({ operation }) => operation.operationId)
      expect(new Set(ids).size).toBe(ids.length)
    }))

  it.effect("is complete: references resolve, parameters match the path, every operation except the probes and signed webhooks requires a key", () =>
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
        expect((operation.security?.length ?? 0) > 0, path).toBe(
          path !== "/healthz" && path !== "/readyz" && !path.endsWith("/build-hook")
        )
        expect(Object.keys(operation.responses).some((status) => status.startsWith("2")), path).toBe(true)
        const hasBody = ["run", "runsync", "/endpoints"].some((end) => path.endsWith(end)) || method === "PUT"
        if (method === "POST" && hasBody) expect(operation.requestBody, path).toBeDefined()
      }
    }))

  it.effect("describes each error with its status, as a problem with `error` and `hint`", () =>
    Effect.gen(function*() {
      const document = yield* read
      const expected: Record<string, ReadonlyArray<string>> = {
        "POST /v2/{endpoint}/run": ["200", "400", "401", "402", "403", "404", "409", "413", "415", "429", "503", "507"],
        "POST /v2/{endpoint}/runsync": ["200", "400", "401", "402", "403", "404", "409", "413", "415", "429", "503", "507"],
        "GET /v2/{endpoint}/status/{id}": ["200", "400", "401", "403", "404", "429", "503"],
        "POST /v2/{endpoint}/retry/{id}": ["200", "400", "401", "403", "404", "409", "429", "503"],
        "GET /v2/{endpoint}/job-take/{worker}": ["200", "204", "400", "401", "403", "404", "503"],
        "POST /v2/{endpoint}/job-done/{worker}/{id}": ["200", "400", "401", "403", "404", "409", "413", "415", "503"],
        "POST /v2/{endpoint}/openai/v1/{route}": "200 400 401 402 403 404 409 413 415 429 499 500 502 503 504 507".split(" "),
        "POST /api/v1/endpoints": ["201", "400", "401", "403", "409", "413", "415", "503"],
        "DELETE /api/v1/endpoints/{endpoint}": ["204", "400", "401", "403", "404", "409", "503"],
        "POST /api/v1/keys": ["201", "400", "401", "403", "404", "413", "415", "503"],
        "PATCH /api/v1/keys/{key}": ["200", "400", "401", "403", "404", "409", "413", "415", "503"],
        "POST /api/v1/backup": ["200", "401", "403", "409", "503"],
        "GET /healthz": ["200"],
        "GET /readyz": ["200", "503"]
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
          if (path.includes("/openai/")) {
            expect(response.content?.["application/json"]?.schema, `${path} ${status}`).toEqual({
              $ref: "#/components/schemas/OpenAiError"
            })
            continue
          }
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

  it.effect("describes every operation and every parameter, and declares every body that is read", () =>
    Effect.gen(function*() {
      const operations = operationsOf(yield* read)
      for (const { method, operation, path } of operations) {
        const name = `${method} ${path}`
        expect(operation.summary ?? "", name).toMatch(/^[A-Z].*[^.]$/)
        expect(operation.description ?? "", name).toMatch(/^[A-Z].*\.$/s)
        for (const parameter of operation.parameters) {
          expect(parameter.description ?? parameter.schema.description ?? "", `${name} ${parameter.name}`).toMatch(/\S/)
        }
      }
      for (const end of ["job-done/{worker}/{id}", "job-stream/{worker}/{id}", "ping/{worker}", "/run", "/runsync"]) {
        const found = operations.find(({ method, path }) => method === "POST" && path.endsWith(end))
        expect(found?.operation.requestBody?.content["application/json"]?.examples?.["default"]?.value, end).toBeDefined()
      }
      const named = operations.filter(({ operation }) => operation.parameters.some(({ name }) => name === "Idempotency-Key"))
      expect(named.map(({ method, path }) => `${method} ${path}`)).toEqual([
        "POST /v2/{endpoint}/run",
        "POST /v2/{endpoint}/runsync",
        ...["POST", "GET", "DELETE"].map((method) => `${method} /v2/{endpoint}/openai/v1/{route}`)
      ])
    }))

  it.effect("its examples match their own schemas", () =>
    Effect.gen(function*() {
      const document = yield* read
      let examples = 0
      for (const { method, operation, path } of operationsOf(document)) {
        const bodies = [operation.requestBody, ...Object.values(operation.responses)]
        for (const media of bodies.flatMap((body) => Object.values(body?.content ?? {}))) {
          for (const [name, { value }] of Object.entries(media.examples ?? {})) {
            examples += 1
            expect(checker(document, media.schema)(value), `${method} ${path}, ${name}`).toBe("fits")
          }
        }
      }
      expect(examples).toBeGreaterThan(15)
    }))

  it.effect("the platform's responses match the document", () =>
    Effect.gen(function*() {
      const document = yield* read
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const post = { method: "POST" }
      const done = yield* endpoint.run({ name: "Ada" }, { tags: ["a"] })
      yield* worker.next
      yield* worker.progress(done.id, { percent: 1 })
      yield* worker.stream(done.id, ["chunk"])
      yield* worker.finish(done.id, { greeting: "Hello" })
      const failed = yield* endpoint.run({})
      yield* worker.next
      yield* worker.deliver(failed.id, { error: "broken" })
      const waiting = yield* endpoint.run({})
      const taken = yield* endpoint.run({}, { priority: 1 })

      const calls: ReadonlyArray<readonly [operation: string, path: string, call?: Parameters<typeof server.call>[1]]> = [
        ["POST /v2/{endpoint}/run", "run", { json: { input: 1 } }],
        ["POST /v2/{endpoint}/run", "run", { json: {} }],
        ["POST /v2/{endpoint}/runsync", "runsync?wait=1", { json: { input: 1 } }],
        ["GET /v2/{endpoint}/status/{id}", `status/${done.id}`],
        ["GET /v2/{endpoint}/status/{id}", `status/${failed.id}?explain`],
        ["GET /v2/{endpoint}/status/{id}", `status/${waiting.id}?explain`],
        ["GET /v2/{endpoint}/status/{id}", "status/nope"],
        ["POST /v2/{endpoint}/status/{id}", `status/${done.id}`, post],
        ["GET /v2/{endpoint}/status-sync/{id}", `status-sync/${done.id}`],
        ["GET /v2/{endpoint}/stream/{id}", `stream/${done.id}`],
        ["GET /v2/{endpoint}/requests", "requests"],
        ["GET /v2/{endpoint}/requests", "requests?limit=1"],
        ["GET /v2/{endpoint}/requests", "requests?limit=none"],
        ["POST /v2/{endpoint}/cancel/{id}", `cancel/${waiting.id}`, post],
        ["POST /v2/{endpoint}/retry/{id}", `retry/${failed.id}`, post],
        ["POST /v2/{endpoint}/retry/{id}", `retry/${done.id}`, post],
        ["GET /v2/{endpoint}/health", "health"],
        ["GET /v2/{endpoint}/openai/v1/{route}", "/v2/nowhere/openai/v1/models"],
        ["POST /v2/{endpoint}/openai/v1/{route}", "openai/v1/chat/completions", { body: "no JSON" }],
        ["POST /v2/{endpoint}/purge-queue", "purge-queue", post],
        ["GET /api/v1/endpoints", "/api/v1/endpoints"],
        ["GET /api/v1/endpoints/{endpoint}", `/api/v1/endpoints/${endpoint.id}`],
        ["GET /api/v1/endpoints/{endpoint}/worker-env", `/api/v1/endpoints/${endpoint.id}/worker-env`],
        ["POST /api/v1/endpoints", "/api/v1/endpoints", { json: { id: endpoint.id, source: { type: "external" } } }],
        ["GET /api/v1/keys", "/api/v1/keys"],
        ["POST /api/v1/keys", "/api/v1/keys", { json: { name: "k", endpoints: "all" } }],
        ["POST /api/v1/backup", "/api/v1/backup", post],
        ["GET /healthz", "/healthz"],
        ["GET /readyz", "/readyz"]
      ]
      const fits = (name: string, status: number, type: string | null, value: unknown) => {
        const found = operationsOf(document).find(({ method, path }) => `${method} ${path}` === name)
        const media = found?.operation.responses[status]?.content?.[type?.split(";")[0] ?? ""]
        expect(media, `${name} ${status} ${type}`).toBeDefined()
        expect(checker(document, media?.schema)(value), `${name} ${status}`).toBe("fits")
      }
      for (const [name, path, call] of calls) {
        const answer = yield* server.call(path.startsWith("/") ? path : endpoint.path(path), call)
        fits(name, answer.status, answer.headers.get("content-type"), answer.json)
      }
      yield* endpoint.run(taken.id)
      const take = yield* worker.call(worker.addresses.take)
      fits("GET /v2/{endpoint}/job-take/{worker}", take.status, take.headers.get("content-type"), take.json)
      const events = yield* server.call(endpoint.path(`events/${done.id}`))
      for (const event of events.text.split("\n\n").filter((one) => one.startsWith("id:"))) {
        const fields = Object.fromEntries(event.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)))
        fits("GET /v2/{endpoint}/events/{id}", 200, "text/event-stream", fields)
      }
    }))
})

/**
 * Tests the schemas of handlers (docs/spec/jobs-api.md#the-schema-of-a-handler).
 */
import { expect } from "@effect/vitest"
import { EndpointSchema, MAX_SCHEMA_BYTES } from "@stint/contract/HandlerSchema"
import { Release } from "@stint/contract/Release"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const reported = (title: string) => ({
  input: { type: "object", properties: { name: { type: "string", title } }, required: ["name"] },
  output: { type: "string" },
  error: { enum: ["no such name"] },
  streams: false
})

const schemaOf = expectJson(200, EndpointSchema)

/** Registers the tests. */
export const handlerSchemas = (it: ServerIt): void => {
  const world = Effect.gen(function*() {
    const { call, endpoint } = yield* ServerTest
    const one = yield* endpoint({ workers: { min: 0, max: 1 } })
    const worker = yield* one.worker()
    const address = worker.addresses.take.replace("/job-take/", "/handler-schema/")
    return {
      one,
      worker,
      call,
      report: (schema: object) => worker.call(address, { json: schema }),
      reportText: (body: string) => worker.call(address, { body }),
      read: call(one.path("schema"))
    }
  })

  it.effect("a schema: callers read the last one that a worker reported, with the time of the report", () =>
    Effect.gen(function*() {
      const { read, report } = yield* world
      expect(yield* read).toMatchObject({ status: 204, text: "" })
      expect((yield* report(reported("Grüße"))).status).toBe(200)
      const first = yield* Effect.flatMap(read, schemaOf)
      expect(first).toEqual({ ...reported("Grüße"), reportedAt: first.reportedAt })
      expect(Math.abs(Date.now() - first.reportedAt)).toBeLessThan(60_000)
      yield* report(reported("Grüße"))
      expect(yield* Effect.flatMap(read, schemaOf)).toEqual(first)
      const { error: _, ...withoutError } = reported("name")
      yield* report({ ...withoutError, streams: true })
      const second = yield* Effect.flatMap(read, schemaOf)
      expect(second).toEqual({ ...withoutError, streams: true, reportedAt: second.reportedAt })
    }))

  it.effect("a schema: that of an outdated release or of a canary is ignored", () =>
    Effect.gen(function*() {
      const { call, one, read, report, worker } = yield* world
      const registry = yield* WorkerRegistry
      const { number: active } = yield* Effect.flatMap(
        call(`/api/v1/endpoints/${one.id}/releases`, { json: { spec: { source: { type: "external" }, maxAttempts: 2 } } }),
        expectJson(201, Release)
      )
      const as = (release: number) => registry.starting(one.endpoint.id, worker.id, release)
      yield* as(active)
      yield* report(reported("active"))
      for (const other of [active + 1, active - 1]) {
        yield* as(other)
        expect((yield* report(reported("other"))).status).toBe(200)
      }
      expect(yield* Effect.flatMap(read, schemaOf)).toMatchObject({ ...reported("active"), release: active })
    }))

  it.effect("a schema: refuses what is no schema, and what is too large, and keeps the last one", () =>
    Effect.gen(function*() {
      const { read, report, reportText } = yield* world
      yield* report(reported("name"))
      for (const wrong of [{}, [], { ...reported("name"), input: true }, { ...reported("name"), streams: "no" }, { input: {} }]) {
        expect((yield* Effect.flatMap(report(wrong), expectProblem(400))).hint, JSON.stringify(wrong)).toContain(
          "A handler's schema is"
        )
      }
      yield* Effect.flatMap(reportText("{\"input\": NaN}"), expectProblem(400))
      const empty = JSON.stringify(reported(""))
      const largest = JSON.stringify(reported("x".repeat(MAX_SCHEMA_BYTES - empty.length)))
      yield* Effect.flatMap(reportText(`${largest} `), expectProblem(413))
      expect(yield* Effect.flatMap(read, schemaOf)).toMatchObject(reported("name"))
      expect((yield* reportText(largest)).status).toBe(200)
      expect(yield* Effect.flatMap(read, schemaOf)).toMatchObject({ output: { type: "string" } })
    }))

  it.effect("a schema: only workers of the endpoint report one", () =>
    Effect.gen(function*() {
      const { call, one, read } = yield* world
      const { endpoint } = yield* ServerTest
      const other = yield* Effect.flatMap(endpoint(), (two) => two.worker())
      for (const [authorization, status] of [[null, 401], [`Bearer ${ADMIN_KEY}`, 403], [other.key, 403]] as const) {
        expect((yield* call(one.path("handler-schema/w"), { json: reported("name"), authorization })).status).toBe(status)
      }
      expect((yield* read).status).toBe(204)
    }))
}

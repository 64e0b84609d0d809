/**
 * `handler-schema`: a worker reports what its handler takes and returns (docs/spec/jobs-api.md#the-schema-of-a-handler).
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { HandlerSchema, MAX_SCHEMA_BYTES } from "@stint/contract/HandlerSchema"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { Secrets } from "@stint/secrets/Secrets"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import type { HttpServerRequest } from "effect/http"
import { Limits } from "../http/Limits.ts"
import { mapStoreErrors } from "../http/QueueProblems.ts"
import { decoder, memberValues, readText, scanJson } from "../http/RequestBody.ts"

const hint = "A handler's schema is a JSON object like {\"input\": {\"type\": \"object\"}, \"output\": {}, \"streams\": false}."

const MEMBERS = { members: new Set(Object.keys(HandlerSchema.fields)) }

const decode = decoder(HandlerSchema, hint)

/** Stores the schema in a request's body, unless it is the known one, or that of a release that the endpoint does not run. */
export const operation = Effect.gen(function*() {
  const registry = yield* WorkerRegistry
  const endpoints = yield* EndpointStore
  const secrets = yield* Secrets
  const limits = yield* Limits
  return Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest, endpoint: Endpoint, worker: string) {
    const limit = Math.min(MAX_SCHEMA_BYTES, limits.chunkBytes)
    const text = yield* readText(request, limit, "Report a smaller schema, or none.")
    // Callers read the schema. A handler may have put the value of a variable into it.
    const body = yield* scanJson(secrets.maskOf(endpoint)?.(text) ?? text, hint, MEMBERS)
    const { error, input, output, streams } = yield* decode(yield* memberValues(body, hint))
    const release = registry.releaseOf(endpoint.id, worker)
    if (release !== undefined && release !== endpoint.release) return
    const reported = {
      input,
      output,
      ...(error === undefined ? {} : { error }),
      streams,
      ...(release === undefined ? {} : { release })
    }
    const known = yield* mapStoreErrors(endpoints.schema(endpoint.id))
    if (known !== undefined && Equal.equals(known, { ...reported, reportedAt: known.reportedAt })) return
    yield* mapStoreErrors(endpoints.putSchema(endpoint.id, { ...reported, reportedAt: yield* Clock.currentTimeMillis }))
  })
})

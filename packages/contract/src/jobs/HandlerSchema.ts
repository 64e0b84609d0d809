/**
 * The schema of a handler: what an endpoint takes and returns, as JSON Schemas (docs/spec/jobs-api.md#the-schema-of-a-handler).
 *
 * ```
 *   worker of a handler with Schemas --POST handler-schema--> platform, one per endpoint --GET schema--> callers, the console's playground
 * ```
 *
 * It describes and does not validate: the worker validates.
 */
import * as Schema from "effect/Schema"

/** The maximum size of a {@link HandlerSchema} as JSON text, in bytes. Workers do not report a larger one. */
export const MAX_SCHEMA_BYTES = 64 * 1024

/** A JSON Schema (draft 2020-12). */
export const JsonSchema = Schema.Record(Schema.String, Schema.Json)
export type JsonSchema = typeof JsonSchema.Type

/** What a handler takes and returns. */
export const HandlerSchema = Schema.Struct({
  /** The schema of the `input` that callers send. */
  input: JsonSchema,
  /** The schema of the `output`. If the handler streams, the schema of one chunk. */
  output: JsonSchema,
  /** The schema of the declared failures, whose JSON text becomes the job's `error`. Absent if the handler declares none. */
  error: Schema.optionalKey(JsonSchema),
  /** Whether the result is a stream of chunks. */
  streams: Schema.Boolean
})
export type HandlerSchema = typeof HandlerSchema.Type

/** The response of `GET /v2/{endpoint}/schema`, which is empty while no worker has reported a schema. */
export const EndpointSchema = Schema.Struct({
  ...HandlerSchema.fields,
  /** The release whose worker reported it. Absent if the worker's release is not known, as for workers that the platform did not start. */
  release: Schema.optionalKey(Schema.Int),
  /** When it was reported. Milliseconds since 1970. */
  reportedAt: Schema.Int
})
export type EndpointSchema = typeof EndpointSchema.Type

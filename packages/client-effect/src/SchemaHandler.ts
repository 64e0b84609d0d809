/**
 * The types of an endpoint, derived from the Schemas of its handler. A `Handler` from `@stint/worker` fits, and so does any object with the
 * same members.
 */
import type { ChunkShape, HandlerLike, OutputShape } from "@stint/client/HandlerType"
import type * as Schema from "effect/Schema"

/** The part of a handler that matters to callers, with Effect Schemas. */
export interface SchemaHandler extends HandlerLike {
  readonly input: Schema.Constraint
  readonly output: Schema.Constraint
  readonly error: Schema.Constraint
}

/** A handler whose Schemas require no services, so that promises can use them. */
export interface PlainHandler extends SchemaHandler {
  readonly input: Schema.ConstraintCodec<unknown, unknown>
  readonly output: Schema.ConstraintCodec<unknown, unknown>
  readonly error: Schema.ConstraintCodec<unknown, unknown>
}

/** An endpoint's input. */
export type InputOf<H extends SchemaHandler> = H["input"]["Type"]

/** The result of `runSync` and `result`. */
export type OutputOf<H extends SchemaHandler> = OutputShape<H["streams"], H["output"]["Type"]>

/** The elements of `stream`. */
export type ChunkOf<H extends SchemaHandler> = ChunkShape<H["streams"], H["output"]["Type"]>

/** The failures that the handler declares. */
export type ErrorOf<H extends SchemaHandler> = H["error"]["Type"]

/** The services that the Schemas require to encode the input and decode the results. `never` for most Schemas. */
export type ServicesOf<H extends SchemaHandler> =
  | H["input"]["EncodingServices"]
  | H["output"]["DecodingServices"]
  | H["error"]["DecodingServices"]

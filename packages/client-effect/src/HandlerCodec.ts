/**
 * Encodes inputs and decodes results with the Schemas of a handler: the counterpart of `Handler` in `@stint/worker`.
 *
 * ```
 *   input             --encode-->  "input"
 *   "output"          --decode-->  output, or a list of outputs if the handler streams
 *   "output" absent   = {}: the handler returned an object without keys (docs/spec/handler.md#returned-values)
 *   "error"           --decode-->  the declared failure, from JSON text or from the text itself; an exception is never a declared failure
 * ```
 */
import { parseJson } from "@stint/client/CallError"
import { exceptionOf } from "@stint/client/JobOutcome"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { ChunkOf, ErrorOf, InputOf, OutputOf, SchemaHandler, ServicesOf } from "./SchemaHandler.ts"

/** The codec of one endpoint. */
export interface Codec<in Input, out Output, out Chunk, out E, out R> {
  readonly input: (input: Input) => Effect.Effect<unknown, Schema.SchemaError, R>
  readonly output: (json: unknown) => Effect.Effect<Output, Schema.SchemaError, R>
  readonly chunk: (json: unknown) => Effect.Effect<Chunk, Schema.SchemaError, R>
  /** Decodes a job's `error` as a declared failure, if it is one. */
  readonly declared: (error: string) => Effect.Effect<Option.Option<E>, never, R>
}

const decoder = <S extends Schema.Constraint>(schema: S) =>
  Schema.decodeUnknownEffect(Schema.toCodecJson(schema), { errors: "all" })

/** Overloaded, because TypeScript cannot infer that the output is a list if and only if `handler.streams` is true. */
function outputDecoder<H extends SchemaHandler>(
  handler: H
): (json: unknown) => Effect.Effect<OutputOf<H>, Schema.SchemaError, H["output"]["DecodingServices"]>
function outputDecoder(handler: SchemaHandler): (json: unknown) => Effect.Effect<unknown, Schema.SchemaError, unknown> {
  return handler.streams ? decoder(Schema.Array(handler.output)) : decoder(handler.output)
}

function chunkDecoder<H extends SchemaHandler>(
  handler: H
): (json: unknown) => Effect.Effect<ChunkOf<H>, Schema.SchemaError, H["output"]["DecodingServices"]>
function chunkDecoder(handler: SchemaHandler): (json: unknown) => Effect.Effect<unknown, Schema.SchemaError, unknown> {
  return decoder(handler.output)
}

/** The codec of a handler's endpoint. */
export const ofHandler = <H extends SchemaHandler>(
  handler: H
): Codec<InputOf<H>, OutputOf<H>, ChunkOf<H>, ErrorOf<H>, ServicesOf<H>> => {
  const input = Schema.encodeUnknownEffect(Schema.toCodecJson(handler.input), { errors: "all" })
  const output = outputDecoder(handler)
  const failure = decoder(handler.error)
  return {
    input,
    output: (json) => output(json === undefined ? (handler.streams ? [] : {}) : json),
    chunk: chunkDecoder(handler),
    declared: (error) =>
      exceptionOf(error) === undefined
        ? Effect.matchEffect(failure(parseJson(error)), {
          onSuccess: Effect.succeedSome,
          onFailure: () => Effect.option(failure(error))
        })
        : Effect.succeedNone
  }
}

/** Gives a value the type that the caller declares, without validation. */
function unvalidated<A>(json: unknown): Effect.Effect<A>
function unvalidated(json: unknown): Effect.Effect<unknown> {
  return Effect.succeed(json)
}

/** The codec of an endpoint that is called by name: JSON passes through without validation. */
export const ofName = <Input, Output, Chunk>(): Codec<Input, Output, Chunk, never, never> => ({
  input: Effect.succeed,
  output: (json) => unvalidated<Output>(json),
  chunk: (json) => unvalidated<Chunk>(json),
  declared: () => Effect.succeedNone
})

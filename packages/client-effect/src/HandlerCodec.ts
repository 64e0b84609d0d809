/**
 * How the Schemas of a handler write what goes out and read what comes back: the other end of `Handler` in `@stint/worker`.
 *
 * ```
 *   input             --encode-->  "input"
 *   "output"          --decode-->  output, or a list of it where the handler streams
 *   "output" absent   = {}: the handler returned an object without keys (docs/spec/handler.md#returned-values)
 *   "error"           --decode-->  the declared failure: its JSON text, or the text itself; an exception is never one
 * ```
 */
import { parseJson } from "@stint/client/CallError"
import type { ChunkOf, ErrorOf, HandlerLike, InputOf, OutputOf, ServicesOf } from "@stint/client/HandlerType"
import { exceptionOf } from "@stint/client/JobOutcome"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** The encoding of one endpoint. */
export interface Codec<in Input, out Output, out Chunk, out E, out R> {
  readonly input: (input: Input) => Effect.Effect<unknown, Schema.SchemaError, R>
  readonly output: (json: unknown) => Effect.Effect<Output, Schema.SchemaError, R>
  readonly chunk: (json: unknown) => Effect.Effect<Chunk, Schema.SchemaError, R>
  /** The failure that a job's `error` declares, if it does. */
  readonly declared: (error: string) => Effect.Effect<Option.Option<E>, never, R>
}

const decoder = <S extends Schema.Constraint>(schema: S) =>
  Schema.decodeUnknownEffect(Schema.toCodecJson(schema), { errors: "all" })

/** The output of a job is a list where the handler streams. TypeScript cannot follow a type by the value that goes with it. */
function outputDecoder<H extends HandlerLike>(
  handler: H
): (json: unknown) => Effect.Effect<OutputOf<H>, Schema.SchemaError, H["output"]["DecodingServices"]>
function outputDecoder(handler: HandlerLike): (json: unknown) => Effect.Effect<unknown, Schema.SchemaError, unknown> {
  return handler.streams ? decoder(Schema.Array(handler.output)) : decoder(handler.output)
}

function chunkDecoder<H extends HandlerLike>(
  handler: H
): (json: unknown) => Effect.Effect<ChunkOf<H>, Schema.SchemaError, H["output"]["DecodingServices"]>
function chunkDecoder(handler: HandlerLike): (json: unknown) => Effect.Effect<unknown, Schema.SchemaError, unknown> {
  return decoder(handler.output)
}

/** By the Schemas of a handler. */
export const ofHandler = <H extends HandlerLike>(
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

/** The one place where a caller's word is taken for the type of what comes. */
function trusted<A>(json: unknown): Effect.Effect<A>
function trusted(json: unknown): Effect.Effect<unknown> {
  return Effect.succeed(json)
}

/** By nothing: JSON goes out as it is and comes back as it is, and the caller says what it is. */
export const ofName = <Input, Output, Chunk>(): Codec<Input, Output, Chunk, never, never> => ({
  input: Effect.succeed,
  output: (json) => trusted<Output>(json),
  chunk: (json) => trusted<Chunk>(json),
  declared: () => Effect.succeedNone
})

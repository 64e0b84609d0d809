/**
 * Types and validates an endpoint of the promise client with the Schemas of a handler.
 *
 * ```ts
 * const thumbnail = createClient({ baseUrl }).endpoint(PromiseCodec.make(Thumbnail))
 * ```
 *
 * Schemas add 26 KB (gzipped) to a browser bundle. `await import("@stint/client-effect/PromiseCodec")` loads them on demand.
 */
import type { CodecResult, EndpointCodec } from "@stint/client"
import { fieldIssues } from "@stint/contract/SchemaIssues"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as HandlerCodec from "./HandlerCodec.ts"
import type { ChunkOf, InputOf, OutputOf, PlainHandler } from "./SchemaHandler.ts"

const toResult = <A>(effect: Effect.Effect<A, Schema.SchemaError>): Promise<CodecResult<A>> =>
  Effect.runPromise(Effect.match(effect, {
    onFailure: (error): CodecResult<A> => ({ problems: fieldIssues(error) }),
    onSuccess: (value): CodecResult<A> => ({ value })
  }))

/** The codec of a handler's endpoint, for `endpoint` from `@stint/client`. */
export function make<H extends PlainHandler>(handler: H): EndpointCodec<InputOf<H>, OutputOf<H>, ChunkOf<H>>
export function make(handler: PlainHandler): EndpointCodec<unknown, unknown, unknown> {
  const codec = HandlerCodec.ofHandler(handler)
  return {
    name: handler.name,
    input: (input) => toResult(codec.input(input)),
    output: (json) => toResult(codec.output(json)),
    chunk: (json) => toResult(codec.chunk(json)),
    declared: (error) => Effect.runPromise(Effect.map(codec.declared(error), Option.getOrUndefined))
  }
}

/**
 * Encodes the input of an endpoint and decodes its results. `PromiseCodec.make(handler)` from `@stint/client-effect` builds a codec from the
 * Schemas of a handler; codecs for other validation libraries can implement the same interface.
 */
import type { Problem } from "./CallError.ts"

/** The value, or the problems that made the codec reject it. */
export type CodecResult<Value> = { readonly value: Value } | { readonly problems: ReadonlyArray<Problem> }

/** The codec of one endpoint. */
export interface EndpointCodec<in Input, out Output, out Chunk> {
  /** The endpoint's name, unless the caller passes another name. */
  readonly name: string
  /** Encodes an input as a JSON value. Problems reject the call with `Invalid`; nothing is sent. */
  readonly input: (input: Input) => Promise<CodecResult<unknown>>
  /** Decodes a job's output, which is undefined when the handler returned `{}`. Problems reject the call with `Mismatch`. */
  readonly output: (json: unknown) => Promise<CodecResult<Output>>
  /** Decodes one chunk. Problems reject the call with `Mismatch`. */
  readonly chunk: (json: unknown) => Promise<CodecResult<Chunk>>
  /** Decodes a job's `error` as one of the failures that the handler declares. Undefined for any other error. */
  readonly declared: (error: string) => Promise<unknown>
}

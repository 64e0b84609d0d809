/**
 * What of a handler types its endpoint. A `Handler` of `@stint/worker` fits, and so does anything else with the same members: the client
 * knows no worker.
 *
 * Only types: it costs the Promise side nothing.
 */
import type * as Schema from "effect/Schema"

/** A handler, as a caller sees it. */
export interface HandlerLike {
  /** The name of its endpoint, unless another is given. */
  readonly name: string
  readonly input: Schema.Constraint
  /** Of the job's output; of one chunk, where the handler streams. */
  readonly output: Schema.Constraint
  readonly error: Schema.Constraint
  readonly streams: boolean
}

/** A handler whose Schemas need no services, so that they can be used outside of an Effect. */
export interface PlainHandler extends HandlerLike {
  readonly input: Schema.ConstraintCodec<unknown, unknown>
  readonly output: Schema.ConstraintCodec<unknown, unknown>
  readonly error: Schema.ConstraintCodec<unknown, unknown>
}

/**
 * The output of a job: what the handler gives; of one that streams a list, of all its chunks where it aggregates them, else empty. Where
 * the type does not say whether it streams, either.
 */
export type Shape<Streams extends boolean, One> = Streams extends true ? ReadonlyArray<One> : One

/** The chunks of a job: none, where the handler does not stream. */
export type ChunkShape<Streams extends boolean, One> = Streams extends true ? One : never

/** The chunks of a job by the type of its output alone: its elements, where it is a list (of a handler that aggregates its chunks). */
export type ElementOf<Output> = Output extends ReadonlyArray<infer One> ? One : Output

/** What callers give to an endpoint of this handler. */
export type InputOf<H extends HandlerLike> = H["input"]["Type"]

/** What callers get from `runSync` and `result`. */
export type OutputOf<H extends HandlerLike> = Shape<H["streams"], H["output"]["Type"]>

/** What callers get from `stream`. */
export type ChunkOf<H extends HandlerLike> = ChunkShape<H["streams"], H["output"]["Type"]>

/** The failures that the handler declares. */
export type ErrorOf<H extends HandlerLike> = H["error"]["Type"]

/** What writing the input and reading the rest needs: nothing, of most Schemas. */
export type ServicesOf<H extends HandlerLike> =
  | H["input"]["EncodingServices"]
  | H["output"]["DecodingServices"]
  | H["error"]["DecodingServices"]

/** A value as it looks after a way through JSON: `URL` and `Date` are strings. */
export type JsonOf<A> = A extends string | number | boolean | null | undefined ? A
  : A extends { readonly toJSON: (...args: never) => infer J } ? J
  : A extends object ? { readonly [K in keyof A]: JsonOf<A[K]> }
  : A

/** {@link InputOf}, in JSON: for callers that have the handler's type, but not its Schemas. */
export type JsonInputOf<H extends HandlerLike> = JsonOf<H["input"]["Encoded"]>

/** {@link OutputOf}, in JSON. */
export type JsonOutputOf<H extends HandlerLike> = Shape<H["streams"], JsonOf<H["output"]["Encoded"]>>

/** {@link ChunkOf}, in JSON. */
export type JsonChunkOf<H extends HandlerLike> = ChunkShape<H["streams"], JsonOf<H["output"]["Encoded"]>>

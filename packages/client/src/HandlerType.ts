/**
 * The types of an endpoint, derived from the type of its handler. A `Handler` from `@stint/worker` fits, and so does any object with the same
 * members.
 */

/** The part of an Effect Schema that these types read. */
export interface SchemaLike {
  /** The type of decoded values. */
  readonly Type: unknown
  /** The type of encoded values. */
  readonly Encoded: unknown
}

/** The part of a handler that matters to callers. */
export interface HandlerLike {
  /** The endpoint's name, unless the caller passes another name. */
  readonly name: string
  readonly input: SchemaLike
  /** The job's output, or one chunk if the handler streams. */
  readonly output: SchemaLike
  readonly error: SchemaLike
  readonly streams: boolean
}

/**
 * A job's output: the handler's output, or, if the handler streams, the list of its chunks (empty unless the handler aggregates). It
 * is a union of both if the type of `streams` is `boolean`.
 */
export type OutputShape<Streams extends boolean, Value> = Streams extends true ? ReadonlyArray<Value> : Value

/** The type of a job's chunks; `never` when the handler does not stream. */
export type ChunkShape<Streams extends boolean, Value> = Streams extends true ? Value : never

/** The default chunk type of an endpoint with this output: the elements of a list, otherwise the output itself. */
export type ElementOf<Output> = Output extends ReadonlyArray<infer Element> ? Element : Output

/** The type of a value after `JSON.parse(JSON.stringify(value))`: a `URL` or a `Date` becomes a string. */
export type JsonOf<A> = A extends string | number | boolean | null | undefined ? A
  : A extends { readonly toJSON: (...args: never) => infer J } ? J
  : A extends object ? { readonly [K in keyof A]: JsonOf<A[K]> }
  : A

/** The JSON input of an endpoint. */
export type JsonInputOf<H extends HandlerLike> = JsonOf<H["input"]["Encoded"]>

/** The JSON output of an endpoint. */
export type JsonOutputOf<H extends HandlerLike> = OutputShape<H["streams"], JsonOf<H["output"]["Encoded"]>>

/** The JSON chunks of an endpoint. */
export type JsonChunkOf<H extends HandlerLike> = ChunkShape<H["streams"], JsonOf<H["output"]["Encoded"]>>

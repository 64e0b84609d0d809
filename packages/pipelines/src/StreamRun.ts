/**
 * Runs a stream node: sends its chunks as chunks of the run, and collects them.
 *
 * First, the number of chunks that precede the node is recorded. When the node runs again after a crash, its stream begins again, and chunks that
 * callers have already received are collected but not sent.
 */
import type { Runnable } from "@stint/worker/Runnable"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Activation } from "./Activation.ts"
import type { Results, StreamNode } from "./Definition.ts"
import { running } from "./StepCall.ts"
import type { StepContext } from "./StepContext.ts"

const decodeBefore = Schema.decodeUnknownOption(Schema.Struct({ chunks: Schema.Int }))

const isAsyncIterable = (value: unknown): value is AsyncIterable<unknown> => Predicate.hasProperty(value, Symbol.asyncIterator)

/** An iterable whose code runs in `within`. A generator runs while its chunks are requested, not when it is created. */
const inside = (iterable: AsyncIterable<unknown>, within: <A>(evaluate: () => A) => A): AsyncIterable<unknown> => ({
  [Symbol.asyncIterator]: () => {
    const iterator = within(() => iterable[Symbol.asyncIterator]())
    const end = iterator.return?.bind(iterator)
    return {
      next: () => within(() => iterator.next()),
      ...(end === undefined ? {} : { return: (value) => within(() => end(value)) })
    }
  }
})

/** Calls a stream function. Returns its chunks. */
export const chunksOf = (evaluate: () => unknown, context: StepContext): Stream.Stream<unknown, unknown, unknown> =>
  Stream.unwrap(Effect.map(running(context), (within) => {
    const returned = within(evaluate)
    if (Stream.isStream(returned)) return returned
    return isAsyncIterable(returned)
      ? Stream.fromAsyncIterable(inside(returned, within), (thrown) => thrown)
      : Stream.fail(new TypeError("A stream step must return a Stream or an async iterable, such as an async generator."))
  }))

/** The handler of a stream failed, or its start cannot be recorded. `message`: the error. */
class StreamFailed extends Schema.TaggedError<StreamFailed>()("StreamFailed", { message: Schema.String }) {}

/** Runs the handler of a stream as the runtime would, and fails with its error. */
const consumeHandler = (
  handler: Runnable<unknown>,
  job: { readonly id: string; readonly input: Schema.Json },
  emit: (chunk: unknown) => Effect.Effect<void>
) =>
  Effect.flatMap(
    handler.run(job, emit),
    ({ error }) => error === undefined ? Effect.void : Effect.fail(new StreamFailed({ message: error }))
  )

const toJson = Schema.decodeUnknownSync(Schema.Json)

const firstOf = (list: unknown): unknown => Array.isArray(list) ? list[0] : list

/** Runs the stream once. Returns the list of its chunks, decoded. */
export const runStream = (
  activation: Activation,
  node: StreamNode,
  value: unknown,
  results: Results,
  context: StepContext
): Effect.Effect<unknown, unknown, unknown> =>
  Effect.gen(function*() {
    const { path } = context
    const before = activation.at(path, "choice") ??
      (yield* activation.record({ path, kind: "choice", body: { chunks: activation.chunks() } }).pipe(
        Effect.mapError(({ message }) => new StreamFailed({ message }))
      ))
    const first = Option.getOrUndefined(decodeBefore(before.body))?.chunks ?? 0
    const sent = activation.chunks() - first
    const chunks: Array<unknown> = []
    const { handler, output, run } = node
    const emit = (chunk: unknown): Effect.Effect<void> => {
      chunks.push(chunk)
      return chunks.length > sent ? activation.emit(chunk) : Effect.void
    }
    if (handler === undefined || output === undefined) {
      const stream = chunksOf(() => run(value, results, context), context)
      if (output === undefined) {
        yield* Effect.scoped(Stream.runForEach(stream, emit))
        return chunks
      }
      // Callers receive each chunk as the list's Schema encodes it.
      const encode = Schema.encodeUnknownEffect(Schema.toCodecJson(output))
      const written = Stream.mapEffect(stream, (chunk) => Effect.map(encode([chunk]), firstOf))
      yield* Effect.scoped(Stream.runForEach(written, emit))
      return yield* Schema.decodeUnknownEffect(Schema.toCodecJson(output))(chunks)
    }
    const input = yield* Schema.encodeUnknownEffect(Schema.toCodecJson(handler.input))(value)
    yield* consumeHandler(handler, { id: activation.run, input: toJson(input) }, emit)
    return yield* Schema.decodeUnknownEffect(Schema.toCodecJson(output))(chunks)
  })

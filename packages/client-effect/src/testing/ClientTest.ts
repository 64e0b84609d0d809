/**
 * The mock platform for Effect programs: a layer with the client, and mock handlers that are typed by the Schemas of the real handlers.
 *
 * ```ts
 * const layer = ClientTest.layer({
 *   thumbnail: ClientTest.handler(Thumbnail, ({ url }) => Effect.succeed({ url })),
 *   countdown: function*({ from }: { from: number }) { for (let n = from; n > 0; n--) yield n }
 * })
 * ```
 */
import { MockFailure, type MockHandler, type MockJob, type MockPlatform, mockPlatform } from "@stint/client/testing/MockPlatform"
import * as Effect from "effect/Effect"
import { HttpClient, HttpClientError, HttpClientResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Client from "../Client.ts"
import type { ErrorOf, InputOf, PlainHandler } from "../SchemaHandler.ts"

/** Implements a mock handler: an Effect of the output, or a Stream of chunks for a streaming handler. May fail with declared failures. */
export type HandlerImplementation<H extends PlainHandler> = (
  input: InputOf<H>,
  job: MockJob
) => H["streams"] extends true ? Stream.Stream<H["output"]["Type"], ErrorOf<H>>
  : Effect.Effect<H["output"]["Type"], ErrorOf<H>>

/**
 * Mocks a handler with a function. The handler's Schemas decode the input and encode the output, the chunks and declared failures. A defect
 * fails the job with an exception. Cancelling the job interrupts the function.
 */
export function handler<H extends PlainHandler>(of: H, run: HandlerImplementation<H>): MockHandler
export function handler(
  of: PlainHandler,
  run: (input: unknown, job: MockJob) => Effect.Effect<unknown, unknown> | Stream.Stream<unknown, unknown>
): MockHandler {
  const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(of.input))
  const output = Schema.encodeUnknownEffect(Schema.toCodecJson(of.output))
  const failure = Schema.encodeUnknownEffect(Schema.toCodecJson(of.error))
  const declared = (error: unknown) => Effect.flatMap(failure(error), (encoded) => Effect.fail(new MockFailure(encoded)))
  return async (input: unknown, { signal, ...job }) => {
    const result = run(await Effect.runPromise(decode(input)), { ...job, signal })
    if (!Stream.isStream(result)) return Effect.runPromise(Effect.flatMap(Effect.catch(result, declared), output), { signal })
    const aborted = Effect.callback<void>((resume) => signal.addEventListener("abort", () => resume(Effect.void), { once: true }))
    return chunksOf(result.pipe(
      Stream.catch((error) => Stream.fromEffect(declared(error))),
      Stream.mapEffect((chunk) => output(chunk)),
      Stream.interruptWhen(aborted)
    ))
  }
}

async function* chunksOf<A, E>(stream: Stream.Stream<A, E>): AsyncGenerator<A, void> {
  yield* Stream.toAsyncIterable(stream)
}

/** A client that is connected to a mock platform. */
export const layerOf = ({ baseUrl, fetch }: MockPlatform): Layer.Layer<Client.Client> =>
  Layer.provide(
    Client.layerNoDeps({ baseUrl }),
    Layer.succeed(
      HttpClient.HttpClient,
      HttpClient.make((request, url, signal) =>
        Effect.tryPromise({
          try: () =>
            fetch(url, {
              method: request.method,
              headers: { ...request.headers },
              signal,
              ...(request.body._tag === "Uint8Array" ? { body: new Uint8Array(request.body.body) } : {})
            }),
          catch: (cause) =>
            new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, cause }) })
        }).pipe(Effect.map((response) => HttpClientResponse.fromWeb(request, response)))
      )
    )
  )

/** A client that is connected to a new mock platform, whose endpoints are these functions, by name. */
export const layer = (handlers: Readonly<Record<string, MockHandler>>): Layer.Layer<Client.Client> =>
  Layer.unwrap(Effect.sync(() => layerOf(mockPlatform(handlers))))

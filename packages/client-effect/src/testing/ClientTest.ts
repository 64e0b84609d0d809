/**
 * The mocked platform for Effect programs: the client as a layer, and handlers typed by the Schemas of the ones that they stand for.
 *
 * ```ts
 * const layer = ClientTest.layer({
 *   thumbnail: ClientTest.handler(Thumbnail, ({ url }) => Effect.succeed({ url })),
 *   countdown: function*({ from }: { from: number }) { for (let n = from; n > 0; n--) yield n }
 * })
 * ```
 */
import type { ErrorOf, InputOf, PlainHandler } from "@stint/client/HandlerType"
import { MockFailure, type MockHandler, type MockJob, type MockPlatform, mockPlatform } from "@stint/client/testing/MockPlatform"
import * as Effect from "effect/Effect"
import { HttpClient, HttpClientError, HttpClientResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Client from "../Client.ts"

/** What stands for a handler: an Effect of its output, or where it streams, a Stream of its chunks; with its declared failures. */
export type HandlerImplementation<H extends PlainHandler> = (
  input: InputOf<H>,
  job: MockJob
) => H["streams"] extends true ? Stream.Stream<H["output"]["Type"], ErrorOf<H>>
  : Effect.Effect<H["output"]["Type"], ErrorOf<H>>

/**
 * A function in the place of a handler, by its Schemas: what a caller sends is decoded, what comes back is encoded, and so is a declared
 * failure. A defect is an exception of the handler. Cancelling the job interrupts it.
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
    const given = run(await Effect.runPromise(decode(input)), { ...job, signal })
    if (!Stream.isStream(given)) return Effect.runPromise(Effect.flatMap(Effect.catch(given, declared), output), { signal })
    const aborted = Effect.callback<void>((resume) => signal.addEventListener("abort", () => resume(Effect.void), { once: true }))
    return chunksOf(given.pipe(
      Stream.catch((error) => Stream.fromEffect(declared(error))),
      Stream.mapEffect((chunk) => output(chunk)),
      Stream.interruptWhen(aborted)
    ))
  }
}

async function* chunksOf<A, E>(stream: Stream.Stream<A, E>): AsyncGenerator<A, void> {
  yield* Stream.toAsyncIterable(stream)
}

/** The client of a mocked platform. */
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

/** The client of a platform whose endpoints are these functions, by their names. */
export const layer = (handlers: Readonly<Record<string, MockHandler>>): Layer.Layer<Client.Client> =>
  Layer.unwrap(Effect.sync(() => layerOf(mockPlatform(handlers))))

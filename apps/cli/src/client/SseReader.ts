/**
 * Reads Server-Sent Events from the platform.
 *
 * Effect's typed client fails on a `retry:` field, which the platform sends first, so this module parses the text with Effect's SSE parser.
 */
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import * as Stream from "effect/Stream"

/**
 * Calls `onEvent` for each event in order, including events without data that only have an id, until the connection ends. A lost connection is not an
 * error: the caller reconnects.
 */
export const readEvents = <E1, E, R>(
  body: Stream.Stream<Uint8Array, E1>,
  onEvent: (event: Sse.Event) => Effect.Effect<void, E, R>
): Effect.Effect<void, never, R> => {
  let parsed: Array<Sse.Event> = []
  const parser = Sse.makeParser((event) => {
    if (event._tag === "Event") parsed.push(event)
  }, { dispatchEmptyNamedEvents: true })
  return body.pipe(
    Stream.decodeText,
    Stream.runForEach((text) => {
      parser.feed(text)
      const some = parsed
      parsed = []
      return Effect.forEach(some, onEvent, { discard: true })
    }),
    Effect.ignore
  )
}

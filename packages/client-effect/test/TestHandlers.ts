/**
 * Handlers from `@stint/worker` that determine the types of the endpoints under test. Their code never runs, because the tests act as the
 * workers.
 */
import { Handler } from "@stint/worker"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

export class UnreadableImage extends Schema.TaggedError<UnreadableImage>()("UnreadableImage", {
  url: Schema.URL,
  at: Schema.Date
}) {}

/** A service that the handler requires but callers do not. */
export class Images extends Context.Service<Images, { readonly resize: Effect.Effect<URL> }>()("test/Images") {}

export const Thumbnail = Handler.make("thumbnail", {
  input: Schema.Struct({ url: Schema.URL, width: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 4096 })) }),
  output: Schema.Struct({ url: Schema.URL, taken: Schema.optionalKey(Schema.Date) }),
  error: UnreadableImage,
  run: () => Effect.flatMap(Images, ({ resize }) => Effect.map(resize, (url) => ({ url })))
})

export const Days = Handler.makeStream("days", {
  input: Schema.Struct({ from: Schema.Date }),
  output: Schema.Date,
  run: ({ from }) => Stream.make(from)
})

export const Quiet = Handler.make("quiet", {
  input: Schema.String,
  output: Schema.Struct({ note: Schema.optionalKey(Schema.String) }),
  run: () => Effect.succeed({})
})

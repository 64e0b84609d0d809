/**
 * A service of the handler's own: pictures made smaller.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import sharp from "sharp"

/** The file is no picture that can be read. A caller sees it as the job's error. */
export class UnreadableImage extends Schema.TaggedError<UnreadableImage>()("UnreadableImage", {
  problem: Schema.String
}) {}

export class Images extends Context.Service<Images, {
  /** A JPEG of at most so many pixels in width, upright. */
  readonly resize: (path: string, width: number) => Effect.Effect<Uint8Array, UnreadableImage>
}>()("example-plugins/Images") {}

/** By libvips. */
export const layer: Layer.Layer<Images> = Layer.succeed(Images, {
  resize: (path, width) =>
    Effect.tryPromise({
      // `rotate` without an angle turns the picture upright as its EXIF data says, before that data is dropped.
      try: () => sharp(path).rotate().resize({ width, withoutEnlargement: true }).jpeg().toBuffer(),
      catch: (cause) => new UnreadableImage({ problem: cause instanceof Error ? cause.message : String(cause) })
    })
})

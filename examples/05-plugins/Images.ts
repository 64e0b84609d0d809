/**
 * A service that the handler uses to resize images.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import sharp from "sharp"

/** The file is not a readable image. Callers receive this failure as the job's error. */
export class UnreadableImage extends Schema.TaggedError<UnreadableImage>()("UnreadableImage", {
  problem: Schema.String
}) {}

/** Resizes images. */
export class Images extends Context.Service<Images, {
  /** Returns an upright JPEG that is at most `width` pixels wide. */
  readonly resize: (path: string, width: number) => Effect.Effect<Uint8Array, UnreadableImage>
}>()("example-plugins/Images") {}

/** Resizes images with sharp. */
export const layer: Layer.Layer<Images> = Layer.succeed(Images, {
  resize: (path, width) =>
    Effect.tryPromise({
      // `rotate` without an angle turns the image upright according to its EXIF data, because the output does not contain that data.
      try: () => sharp(path).rotate().resize({ width, withoutEnlargement: true }).jpeg().toBuffer(),
      catch: (cause) => new UnreadableImage({ problem: cause instanceof Error ? cause.message : String(cause) })
    })
})

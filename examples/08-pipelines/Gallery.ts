/**
 * An image pipeline: reads photos, makes thumbnails in parallel, uploads them and publishes a page.
 */
import { Pipeline } from "@stint/pipelines"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import sharp from "sharp"

const Album = Schema.Struct({ title: Schema.NonEmptyString, photos: Schema.Array(Schema.String), width: Schema.Int })

const Page = Schema.Struct({ title: Schema.String, thumbnails: Schema.Array(Schema.String) })

/** The photo cannot be read. Callers receive the message as the error of the run. */
export class UnreadablePhoto extends Schema.TaggedError<UnreadablePhoto>()("UnreadablePhoto", { message: Schema.String }) {}

/** Reads the photos and stores the thumbnails. Tests replace it. */
export class Photos extends Context.Service<Photos, {
  readonly read: (name: string) => Effect.Effect<Uint8Array, UnreadablePhoto>
  /** Uploads a file and returns its address. The same key replaces the file, so a repeated upload does no harm. */
  readonly upload: (key: string, bytes: Uint8Array) => Effect.Effect<string>
}>()("example-pipelines/Photos") {}

/** Paints photos instead of reading them, and keeps nothing. */
export const layer: Layer.Layer<Photos> = Layer.succeed(Photos, {
  read: (name) =>
    Effect.tryPromise({
      try: () => sharp({ create: { width: 400, height: 300, channels: 3, background: name } }).jpeg().toBuffer(),
      catch: () => new UnreadablePhoto({ message: `${name} is not a color that can be painted` })
    }),
  upload: (key, bytes) => Effect.succeed(`memory:${key}.jpg?bytes=${bytes.length}`)
})

export const Gallery = Pipeline.make("gallery", { input: Album })
  .select(({ input }) => input.photos)
  .forEach(
    "thumbnail",
    (name, { input }, { idempotencyKey }) =>
      Effect.gen(function*() {
        const photos = yield* Photos
        const photo = yield* photos.read(name)
        const small = yield* Effect.promise(() => sharp(photo).resize({ width: input.width }).jpeg().toBuffer())
        return yield* photos.upload(idempotencyKey, small)
      }),
    { concurrency: 4, retry: 2 }
  )
  .step("page", (thumbnails, { input }) => ({ title: input.title, thumbnails }))
  .end(Page)

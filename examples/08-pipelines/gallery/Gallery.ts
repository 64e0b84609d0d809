/**
 * An image pipeline: fetches photos, makes thumbnails in parallel, uploads them, and posts the list of their addresses to a webhook.
 */
import { Downloads } from "@stint/downloads"
import { GuardedHttp } from "@stint/http-guard"
import { Pipeline } from "@stint/pipelines"
import { Uploads } from "@stint/worker-uploads"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import sharp from "sharp"

/** The greatest width of a thumbnail. Pixels. */
const MAX_WIDTH = 1024

/** The largest photo that is fetched. Bytes. */
const MAX_BYTES = 20 * 1024 * 1024

const Album = Schema.Struct({
  title: Schema.NonEmptyString,
  photos: Schema.Array(Schema.URL).check(Schema.isMaxLength(32)),
  width: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_WIDTH })),
  /** Where to post the page. Default: nowhere. */
  notify: Schema.optionalKey(Schema.URL)
})

const Page = Schema.Struct({ title: Schema.String, thumbnails: Schema.Array(Schema.String) })

/** A JPEG, as base64 in the journal. */
const Jpeg = Schema.Uint8ArrayFromBase64

/** The photo cannot be read. Callers receive the message as the error of the run. */
export class UnreadablePhoto extends Schema.TaggedError<UnreadablePhoto>()("UnreadablePhoto", { message: Schema.String }) {}

const resize = (photo: string | Uint8Array, width: number) =>
  Effect.tryPromise({
    // `rotate` without an angle turns the photo upright according to its EXIF data, because the output does not contain that data.
    try: () => sharp(photo).rotate().resize({ width, withoutEnlargement: true }).jpeg().toBuffer(),
    catch: (cause) =>
      new UnreadablePhoto({ message: `The photo cannot be read: ${cause instanceof Error ? cause.message : String(cause)}` })
  })

/** Downloads a photo to a temporary file. Returns it no larger than a thumbnail can be, because a result of a step stays in the journal. */
const fetchPhoto = Effect.fn("fetchPhoto")(function*(url: URL) {
  const { path } = yield* Downloads.file(url, { maxBytes: MAX_BYTES })
  return yield* resize(path, MAX_WIDTH)
})

export const Gallery = Pipeline.make("gallery", { input: Album })
  .select(({ input }) => input.photos)
  .forEach("fetch", fetchPhoto, { output: Jpeg, concurrency: 4, retry: 2, timeout: "1 minute" })
  .forEach("thumbnail", (photo, { input }) => resize(photo, input.width), { output: Jpeg, concurrency: 4 })
  .select(({ thumbnail }) => thumbnail.map((bytes, index) => ({ bytes, name: `${index + 1}.jpg` })))
  // The address of an upload contains the run and the name, so a repeated upload replaces the file.
  .forEach("upload", ({ bytes, name }) => Effect.map(Uploads.bytes(bytes, { name }), ({ href }) => href), { retry: 2 })
  .step("page", (thumbnails, { input }) => ({ title: input.title, thumbnails }))
  .select(({ input }) => input.notify === undefined ? [] : [input.notify])
  .forEach(
    "notify",
    (url, { page }, { idempotencyKey }) =>
      GuardedHttp.request(url, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": idempotencyKey },
        body: JSON.stringify(page),
        maxRedirects: 0
      }).pipe(Effect.flatMap(GuardedHttp.success), Effect.asVoid),
    { retry: 3, timeout: "30 seconds" }
  )
  .select(({ page }) => page)
  .end(Page)

/**
 * The handler: downloads an image, resizes it, uploads the result and returns its URL.
 */
import { DownloadError, Downloads } from "@stint/downloads"
import { Handler } from "@stint/worker"
import { Progress } from "@stint/worker-progress"
import { Uploads } from "@stint/worker-uploads"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Images, UnreadableImage } from "./Images.ts"

const Width = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 4096 }))

export const Thumbnail = Handler.make("thumbnail", {
  input: Schema.Struct({ url: Schema.URL, width: Width }),
  output: Schema.Struct({ url: Schema.URL }),
  error: Schema.Union([DownloadError, UnreadableImage]),
  run: Effect.fn("thumbnail")(function*({ url, width }) {
    // Downloads into a temporary folder, which is removed when the job ends or is stopped.
    const photo = yield* Downloads.file(url)
    yield* Progress.update({ step: "resize", bytes: photo.size })
    const images = yield* Images
    const small = yield* images.resize(photo.path, width)
    // Not a declared failure: callers cannot react to a failed upload, so it is reported as an exception.
    return { url: yield* Effect.orDie(Uploads.bytes(small, { name: "thumbnail.jpg" })) }
  })
})
